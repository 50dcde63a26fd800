"""The shape of a table in PostgreSQL, and the rights that a run needs on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemark.errors import InvalidInput
from tidemark.postgres import catalog
from tidemark.postgres.catalog import Column
from tidemark.postgres.session import session
from tidemark.project.postgres.place import PostgresPlace, require_schema


@dataclass(frozen=True)
class TargetTable:
    """The table of a read model as it is."""

    columns: Sequence[Column]
    primary_key: Sequence[str]

    @property
    def types(self) -> Mapping[str, str]:
        """The types of the columns, as `format_type` names them."""
        return {column.name: column.type for column in self.columns}


def read(place: PostgresPlace) -> TargetTable | None:
    """Read the shape of a table; None if there is none.

    Raises:
        PostgresUnavailable: PostgreSQL does not answer.
    """
    with session(place.connection) as opened:
        columns = catalog.columns(opened, place.target)
        return TargetTable(columns, catalog.primary_key(opened, place.target)) if columns else None


def require_rights(place: PostgresPlace) -> None:
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
