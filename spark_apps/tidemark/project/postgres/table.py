"""Checks that a result fits its table in PostgreSQL, and proposes a table for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import types as T

from tidemark.errors import InvalidInput
from tidemark.postgres import catalog
from tidemark.postgres.catalog import Column
from tidemark.postgres.session import session
from tidemark.postgres.statements import statement, text_of
from tidemark.project.postgres.place import Place, require_schema
from tidemark.project.postgres.types import fitting, proposed


@dataclass(frozen=True)
class TargetTable:
    """The table of a read model as it is."""

    columns: Sequence[Column]
    primary_key: Sequence[str]

    @property
    def types(self) -> Mapping[str, str]:
        """The types of the columns, as `format_type` names them."""
        return {column.name: column.type for column in self.columns}


def read(place: Place) -> TargetTable | None:
    """Read the shape of a table; None if there is none.

    Raises:
        PostgresUnavailable: PostgreSQL does not answer.
    """
    with session(place.connection) as opened:
        columns = catalog.columns(opened, place.target)
        return TargetTable(columns, catalog.primary_key(opened, place.target)) if columns else None


def require_rights(place: Place) -> None:
    """Require the rights that a run needs.

    Raises:
        InvalidInput: the user of the connection lacks some.
        SchemaMismatch: there is no such schema.
    """
    with session(place.connection) as opened:
        require_schema(opened, place)
        missing = catalog.missing_rights(opened, place.target)
    if missing:
        user = place.connection.user
        raise InvalidInput(
            f"the user {user} may not {', '.join(missing)} in the table {place.target}",
            where=str(place.connection),
            do=f"execute GRANT {', '.join(missing)} ON {place.target} TO {user}",
        )


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


def create_statement(place: Place, result: T.StructType, key: Sequence[str]) -> list[str]:
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
