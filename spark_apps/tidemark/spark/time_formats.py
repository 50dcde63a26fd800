"""Times in payloads that have a format of their own: numbers since 1970, or texts by a pattern.

The metadata of a field has its format. The field is first read as a number or a text and then
becomes a TIMESTAMP; a value that is no time, or is more precise than microseconds, does not fit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

_KEY = "format"
_EPOCHS: Mapping[str, tuple[T.DataType, int]] = {
    "epoch-seconds": (T.DecimalType(28, 9), 1_000_000),
    "epoch-millis": (T.LongType(), 1_000),
    "epoch-micros": (T.LongType(), 1),
}
"""The type for reading a number of each unit, and the microseconds of the unit."""
_FIRST, _END = -62_135_596_800_000_000, 253_402_300_800_000_000
"""The microseconds of the years 1 to 9999, the range of the other formats."""
_QUOTED = re.compile(r"'[^']*'")


class BadFormat(Exception):
    """A format cannot be used; the text is the reason, in one clause."""


def with_formats(
    spark: SparkSession, fields: T.StructType, formats: Mapping[str, str]
) -> T.StructType:
    """Return the fields with their formats, which are given by the fields' names.

    A format is `epoch-seconds`, `epoch-millis`, `epoch-micros`, or a datetime pattern of Spark.

    Raises:
        BadFormat: there is no such field, it is no TIMESTAMP, or Spark rejects the pattern.
    """
    for name, time_format in formats.items():
        if name not in fields.names:
            raise BadFormat(f"{name} is not a field of event")
        if fields[name].dataType != T.TimestampType():
            raise BadFormat(f"{name} is {fields[name].dataType.simpleString()}, not timestamp")
        _require_pattern(spark, name, time_format)
    return T.StructType(
        [
            T.StructField(field.name, field.dataType, metadata={_KEY: formats[field.name]})
            if field.name in formats
            else field
            for field in fields
        ]
    )


def as_read(fields: T.StructType) -> T.StructType:
    """Return the fields with the types that they have in payloads."""
    return T.StructType([T.StructField(field.name, _read(field)) for field in fields])


def converted(struct: Column, fields: T.StructType, unreadable: str) -> Column:
    """Return a struct of `as_read` with the types of the fields; null gives null.

    Its field `unreadable` (string) is null if all values fit, and otherwise lists those that do
    not; values that are no times are added to it.
    """
    values = {field.name: _value(struct[field.name], field) for field in fields}
    unfit = [
        F.when(struct[field.name].isNotNull() & values[field.name].isNull(), F.lit(misfit(field)))
        for field in fields
        if _KEY in field.metadata
    ]
    faults = struct[unreadable]
    all_faults = F.concat_ws(", ", F.when(faults != "", faults), *unfit)
    mark = F.when(faults.isNotNull() | (all_faults != ""), all_faults)
    parts = [value.alias(name) for name, value in values.items()]
    return F.when(struct.isNotNull(), F.struct(*parts, mark.alias(unreadable)))


def misfit(field: T.StructField) -> str:
    """Return the fault of a value that does not fit its format, in one clause."""
    return f"{field.name} is no time in the format {field.metadata[_KEY]}"


def _read(field: T.StructField) -> T.DataType:
    time_format = field.metadata.get(_KEY)
    if time_format is None:
        return field.dataType
    kind, _ = _EPOCHS.get(time_format, (T.StringType(), 0))
    return kind


def _value(raw: Column, field: T.StructField) -> Column:
    time_format = field.metadata.get(_KEY)
    if time_format is None:
        return raw
    if time_format not in _EPOCHS:
        return F.try_to_timestamp(raw, F.lit(time_format))
    _, unit = _EPOCHS[time_format]
    micros = raw.cast("decimal(38,9)") * unit
    is_time = (micros == F.floor(micros)) & (micros >= _FIRST) & (micros < _END)
    return F.when(is_time, F.timestamp_micros(micros.cast("bigint")))


def _require_pattern(spark: SparkSession, name: str, time_format: str) -> None:
    if time_format in _EPOCHS:
        return
    letters = set(_QUOTED.sub("", time_format))
    if not (letters & set("yu") and ((letters & set("ML") and "d" in letters) or "D" in letters)):
        raise BadFormat(f"{name}: {time_format!r} has no year, month and day")
    try:
        spark.range(1).select(F.date_format(F.lit(0).cast("timestamp"), time_format)).head()
    except PySparkException as error:
        reason = str(error).splitlines()[0].strip()
        raise BadFormat(f"{name}: {time_format!r} is no pattern of Spark: {reason}") from None
