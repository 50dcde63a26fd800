"""Whether a result fits the table that it is for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pyspark.sql import types as T

from tidemark.cassandra.control import Control
from tidemark.errors import SchemaMismatch
from tidemark.projection.analysis import Checked
from tidemark.projection.definition import Mode

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_CQL_TYPES: dict[str, tuple[str, ...]] = {
    # Spark's name of a type: the CQL types that hold all of its values.
    "tinyint": _INTEGERS,
    "smallint": _INTEGERS[1:],
    "int": _INTEGERS[2:],
    "bigint": _INTEGERS[3:],
    "string": ("text", "varchar", "ascii"),
    "boolean": ("boolean",),
    "float": ("float", "double"),
    "double": ("double",),
    "timestamp": ("timestamp",),
    "date": ("date",),
    "binary": ("blob",),
}
_PRIMARY_KEYS = {Mode.BUCKET: "time_bucket", Mode.UPSERT: "persistence_id"}
_REQUIRED: dict[Mode, dict[str, T.DataType]] = {
    Mode.BUCKET: {"time_bucket": T.LongType()},
    Mode.UPSERT: {"persistence_id": T.StringType(), "sequence_nr": T.LongType()},
}


def require_target(control: Control, checked: Checked) -> None:
    """Refuse a result that its target table cannot hold; columns left out of it are welcome.

    Raises:
        SchemaMismatch: naming every difference at once, with both types.
    """
    definition = checked.definition
    columns = control.table_columns(definition.keyspace, definition.table)
    if columns is None:
        raise SchemaMismatch(
            f"the target {definition.target} of projection {definition.name} does not exist",
            where=str(definition.file),
            do="create the table first",
        )
    partition_key, clustering = control.primary_key(definition.keyspace, definition.table)
    problems = [
        *_key_differences(definition.mode, partition_key, clustering),
        *_missing(checked, [*partition_key, *clustering]),
        *_type_differences(checked.result, columns),
    ]
    if problems:
        raise SchemaMismatch(
            f"projection {definition.name} does not fit {definition.target}: "
            + "; ".join(problems),
            where=str(definition.file),
            do="change the SELECT or the table",
        )


def _key_differences(mode: Mode, partition_key: list[str], clustering: list[str]) -> Iterator[str]:
    wanted = _PRIMARY_KEYS[mode]
    if mode is Mode.BUCKET and partition_key != [wanted]:
        yield (
            f"the table's partition key is ({', '.join(partition_key)}),"
            f" mode bucket needs ({wanted})"
        )
    if mode is Mode.UPSERT and (partition_key != [wanted] or clustering):
        yield (
            f"the table's primary key is ({', '.join([*partition_key, *clustering])}),"
            f" mode upsert needs ({wanted})"
        )


def _missing(checked: Checked, key: list[str]) -> Iterator[str]:
    required = _REQUIRED[checked.definition.mode]
    for name in dict.fromkeys([*required, *key]):
        if name not in checked.result.names:
            why = "is part of the primary key" if name in key else "decides which row is newer"
            yield f"the result has no column {name}, which {why}"
        elif name in required and checked.result[name].dataType != required[name]:
            yield (
                f"{name} is {checked.result[name].dataType.simpleString()} in the result,"
                f" it must be the {required[name].simpleString()} of the event"
            )


def _type_differences(result: T.StructType, columns: Mapping[str, str]) -> Iterator[str]:
    for field in result.fields:
        kind = columns.get(field.name)
        if kind is None:
            yield (
                f"the table has no column {field.name}"
                f" ({field.dataType.simpleString()} in the result)"
            )
        elif re.sub(r"^frozen<(.*)>$", r"\1", kind) not in cql_types(field.dataType):
            yield (
                f"{field.name} is {field.dataType.simpleString()} in the result"
                f" and {kind} in the table"
            )


def cql_types(kind: T.DataType) -> list[str]:
    """The CQL types that hold every value of a Spark type."""
    if isinstance(kind, T.ArrayType):
        return [
            f"{collection}<{element}>"
            for collection in ("list", "set")
            for element in cql_types(kind.elementType)
        ]
    if isinstance(kind, T.MapType):
        return [
            f"map<{key}, {value}>"
            for key in cql_types(kind.keyType)
            for value in cql_types(kind.valueType)
        ]
    if isinstance(kind, T.DecimalType):
        return ["decimal"]
    return list(_CQL_TYPES.get(kind.simpleString(), ()))
