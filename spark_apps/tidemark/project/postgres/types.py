"""Which types of PostgreSQL can store the values of a Spark type."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import types as T

from tidemark.postgres.copy import is_simple, staged_type

_INTEGERS = ("smallint", "integer", "bigint", "numeric")
_TEXTS = ("text", "character varying")
_TYPES: Mapping[str, tuple[str, ...]] = {
    # By Spark's name of a type; the first is proposed for a new table.
    "tinyint": _INTEGERS,
    "smallint": _INTEGERS,
    "int": _INTEGERS[1:],
    "bigint": _INTEGERS[2:],
    "string": (*_TEXTS, "uuid"),
    "boolean": ("boolean",),
    "float": ("real", "double precision"),
    "double": ("double precision",),
    "timestamp": ("timestamp with time zone", "timestamp without time zone"),
    "date": ("date",),
    "binary": ("bytea",),
}
CAST = ("uuid", "json")
"""The types to which PostgreSQL casts a staged value only if the statement says so."""


def fitting(kind: T.DataType) -> list[str]:
    """Return the types, named as by `format_type`, that can store the values of a Spark type.

    Limits, such as those of `varchar(20)`, are not a part of a type: a value that exceeds them is
    an error of its row.
    """
    if isinstance(kind, T.DecimalType):
        return ["numeric"]
    if isinstance(kind, T.ArrayType) and is_simple(kind.elementType):
        return [f"{name}[]" for name in fitting(kind.elementType) if name not in CAST]
    if isinstance(kind, (T.ArrayType, T.MapType, T.StructType)):
        return ["jsonb", "json"]
    return list(_TYPES.get(kind.simpleString(), ()))


def proposed(kind: T.DataType) -> str:
    """Return the type for a column of a new table, or "" if none can store the values."""
    if isinstance(kind, T.DecimalType):
        return f"numeric({kind.precision}, {kind.scale})"
    types = fitting(kind)
    return types[0].replace("timestamp with time zone", "timestamptz") if types else ""


def jdbc_type(kind: T.DataType) -> str:
    """Return Spark's type in which the JDBC source reads a column that stores such values."""
    return "string" if staged_type(kind) == "jsonb" else kind.simpleString()
