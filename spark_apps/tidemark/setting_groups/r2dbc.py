"""The settings of a journal in PostgreSQL, a part of `tidemark.settings`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints
from pydantic_settings import BaseSettings

_SLICES = 1024
PostgresName = Annotated[str, StringConstraints(min_length=1, max_length=63)]
"""The name of a schema or of a table."""
ConnectionName = Annotated[str, StringConstraints(pattern=r"^([a-z][a-z0-9_]{0,47})?$")]


class R2dbcSettings(BaseSettings):
    """The settings of a journal of akka-persistence-r2dbc."""

    r2dbc_connection: ConnectionName = Field(
        "",
        description="The connection to PostgreSQL ([postgres](postgres.md)) of a journal of"
        " akka-persistence-r2dbc; with it, the journal is there, and not in Cassandra.",
    )
    r2dbc_schema: PostgresName = Field("public", description="The schema of its tables.")
    r2dbc_journal_table: PostgresName = Field("event_journal", description="`journal.table`.")
    r2dbc_snapshot_table: PostgresName = Field("snapshot", description="`snapshot.table`.")
    r2dbc_data_partitions: int = Field(
        1,
        ge=1,
        le=_SLICES,
        description="`data-partition.number-of-partitions`: with more than 1, the tables have the"
        " suffixes `_0`, `_1` and so on.",
    )
    r2dbc_offset_table: PostgresName = Field(
        "akka_projection_timestamp_offset_store",
        description="`akka.projection.r2dbc.offset-store.timestamp-offset-table`, of projections"
        " that take over from a running one, or hand over to it.",
    )
    r2dbc_look_back: int = Field(
        600,
        ge=0,
        description="Seconds before its window in which a run searches for events that were"
        " committed late.",
    )
    r2dbc_delay: float = Field(
        10.0,
        ge=0,
        description="`query.backtracking.behind-current-time` in seconds: younger events are left"
        " alone.",
    )

    @property
    def is_r2dbc(self) -> bool:
        """Return whether the journal is in PostgreSQL."""
        return bool(self.r2dbc_connection)
