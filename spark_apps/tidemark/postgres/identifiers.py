"""Names of schemas, tables and columns of PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from tidemark.errors import InvalidInput

_BYTES = 63


@dataclass(frozen=True)
class TableName:
    """A table in a schema."""

    schema: str
    table: str

    def __post_init__(self) -> None:
        """Reject names that PostgreSQL would cut off or cannot store, or that have a %."""
        for name in (self.schema, self.table):
            require_identifier(name)
            # psycopg takes a % in a statement for a parameter.
            if "%" in name:
                raise InvalidInput(
                    f"the name {name!r} has a %", do="rename the schema or the table"
                )

    def __str__(self) -> str:
        """Return `schema.table`, for people."""
        return f"{self.schema}.{self.table}"

    @property
    def sql(self) -> sql.Identifier:
        """Return the name for statements of psycopg."""
        return sql.Identifier(self.schema, self.table)

    @property
    def quoted(self) -> str:
        """Return the name for queries of the JDBC source."""
        return f"{quoted(self.schema)}.{quoted(self.table)}"


def require_identifier(name: str) -> None:
    """Require a name that PostgreSQL stores unchanged.

    Raises:
        InvalidInput: it is empty, longer than 63 bytes, or has a zero byte.
    """
    if not name or "\0" in name or len(name.encode()) > _BYTES:
        raise InvalidInput(
            f"not a name that PostgreSQL accepts: {name!r}", do="use at most 63 bytes"
        )


def quoted(name: str) -> str:
    """Return a name in double quotes, for queries of the JDBC source."""
    require_identifier(name)
    return '"' + name.replace('"', '""') + '"'
