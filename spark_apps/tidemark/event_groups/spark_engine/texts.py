"""Values as texts, as Cassandra formats them, and their conversion from and to Spark's types.

Texts are stored because they are exact: Spark's decimals have 38 digits, and the connector's
frames cut them to 18 decimal places.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

SPARK_TYPES = {
    "ascii": "string",
    "bigint": "bigint",
    "blob": "binary",
    "boolean": "boolean",
    "date": "date",
    "decimal": "decimal(38,18)",
    "double": "double",
    "float": "float",
    "inet": "string",
    "int": "int",
    "smallint": "smallint",
    "text": "string",
    "time": "string",
    "timestamp": "timestamp",
    "timeuuid": "string",
    "tinyint": "tinyint",
    "uuid": "string",
    "varint": "decimal(38,0)",
}
"""The type of each CQL type in Spark's SQL; columns of other types are rejected."""
NO_KEYS = ("decimal", "double", "float")
"""Types whose equal values have several texts, so that rows cannot be identified by them."""
_INTEGERS = ("bigint", "int", "smallint", "tinyint", "varint")
_MOMENT = "yyyy-MM-dd HH:mm:ss.SSS'Z'"


def typed(text: Column, kind: str) -> Column:
    """Return a value of a CQL type in Spark's type; Spark fails if it is too large."""
    if kind == "blob":
        return _bytes(text)
    return text.cast(SPARK_TYPES[kind])


def as_text(value: Column, spark_type: str) -> Column:
    """Return the text of a value of Spark's SQL."""
    if spark_type == "binary":
        return F.concat(F.lit("0x"), F.lower(F.hex(value)))
    if spark_type == "timestamp":
        return F.date_format(value, _MOMENT)
    return value.cast("string")


def storable(text: Column, kind: str) -> Column:
    """Return a value that the connector stores exactly in a CQL type.

    The connector converts most texts itself, but it would count days before 1582 by another
    calendar, and drop the leading zeros of a blob.
    """
    if kind == "blob":
        return _bytes(text)
    if kind == "timestamp":
        return _millis(text)
    if kind in ("double", "float", "boolean"):
        return text.cast(kind)
    return text


def canonical(text: Column, kind: str) -> Column:
    """Return the text as Cassandra formats it, by which keys are compared."""
    if kind in _INTEGERS:
        return text.cast("decimal(38,0)").cast("string")
    if kind == "timestamp":
        return F.date_format(F.timestamp_millis(_millis(text)), _MOMENT)
    if kind in ("blob", "boolean", "timeuuid", "uuid"):
        return F.lower(text)
    return text


def _bytes(text: Column) -> Column:
    return F.unhex(F.substring(text, 3, 1 << 30))


def _millis(text: Column) -> Column:
    is_number = text.rlike("^-?[0-9]+$")
    return F.when(is_number, text.cast("bigint")).otherwise(F.unix_millis(text.cast("timestamp")))
