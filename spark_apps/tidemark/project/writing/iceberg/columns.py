"""The columns of an Iceberg table, compared with those of a result. Plain data, no I/O.

A table gets the columns that a changed definition adds, and the wider type where Iceberg can change
it without writing rows again. All other differences are problems.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import types as T

_WIDENED = ((T.IntegerType(), T.LongType()), (T.FloatType(), T.DoubleType()))


def problems(stored: T.StructType, result: T.StructType) -> Iterator[str]:
    """Return a clause for each column because of which a result cannot get into a table."""
    columns = {field.name.lower(): field for field in result.fields}
    for field in stored.fields:
        column = columns.get(field.name.lower())
        if column is None:
            yield (
                f"the result has no column {field.name}"
                f" ({field.dataType.simpleString()} in the table)"
            )
        elif _common_type(field.dataType, column.dataType) is None:
            yield (
                f"{column.name} is {column.dataType.simpleString()} in the result"
                f" and {field.dataType.simpleString()} in the table"
            )


def changes(stored: T.StructType, result: T.StructType) -> T.StructType:
    """Return the columns to add to a table without problems, and those that need a wider type."""
    columns = {field.name.lower(): field for field in stored.fields}
    changed = []
    for field in result.fields:
        column = columns.get(field.name.lower())
        if column is None:
            changed.append(T.StructField(field.name, _in_iceberg(field.dataType)))
        elif (kind := _common_type(column.dataType, field.dataType)) not in (None, column.dataType):
            changed.append(T.StructField(column.name, kind))
    return T.StructType(changed)


def _common_type(stored: T.DataType, result: T.DataType) -> T.DataType | None:
    """Return the type for a column that has these values and gets those; None without one."""
    result = _in_iceberg(result)
    if stored.simpleString() == result.simpleString():
        return stored
    if isinstance(stored, T.DecimalType) and isinstance(result, T.DecimalType):
        precision = max(stored.precision, result.precision)
        return T.DecimalType(precision, stored.scale) if stored.scale == result.scale else None
    return next((wide for narrow, wide in _WIDENED if {stored, result} == {narrow, wide}), None)


def _in_iceberg(kind: T.DataType) -> T.DataType:
    """Return the type of a table's column: Iceberg has no integers of one or two bytes."""
    if isinstance(kind, T.ByteType | T.ShortType):
        return T.IntegerType()
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_in_iceberg(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(_in_iceberg(kind.keyType), _in_iceberg(kind.valueType))
    if isinstance(kind, T.StructType):
        return T.StructType(
            [T.StructField(field.name, _in_iceberg(field.dataType)) for field in kind.fields]
        )
    return kind
