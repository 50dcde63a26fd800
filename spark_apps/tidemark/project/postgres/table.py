"""Checks that a result fits its table in PostgreSQL, and proposes a table for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import types as T

from tidemark.postgres.statements import statement, text_of
from tidemark.project.postgres.place import PostgresPlace
from tidemark.project.postgres.shape import TargetTable
from tidemark.project.postgres.types import fitting, proposed


def differences(result: T.StructType, table: TargetTable) -> Iterator[str]:
    """Return a clause for each column of a result that the table cannot store."""
    columns = {column.name: column for column in table.columns}
    for field in result.fields:
        column, shown = columns.get(field.name), field.dataType.simpleString()
        if column is None:
            yield f"the table has no column {field.name} ({shown} in the result)"
        elif column.is_computed:
            yield f"the table computes the column {field.name}: leave it out of the result"
        elif column.type not in fitting(field.dataType):
            yield f"{field.name} is {shown} in the result and {column.type} in the table"
    for column in table.columns:
        if column.is_required and column.name not in result.names:
            yield f"the table's column {column.name} is NOT NULL, and the result does not have it"


def create_statement(place: PostgresPlace, result: T.StructType, key: Sequence[str]) -> list[str]:
    """Return the lines of the statement that creates a table for a result."""
    columns = [
        f"    {text_of(statement('{name}', name=field.name))} {_proposed(field)},"
        for field in result.fields
    ]
    return [
        text_of(statement("CREATE TABLE {table} (", table=place.target)),
        *columns,
        text_of(statement("    PRIMARY KEY ({key})", key=[*key])),
        ");",
    ]


def _proposed(field: T.StructField) -> str:
    return proposed(field.dataType) or f"?  -- no type holds {field.dataType.simpleString()}"
