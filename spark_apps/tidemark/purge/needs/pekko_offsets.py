"""The offset store of Pekko projections on Cassandra, which is read only.

Source: org.apache.pekko.projection.cassandra.internal.CassandraOffsetStore (the table) and
org.apache.pekko.projection.internal.OffsetSerialization (the manifests), 1.1.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.settings import Settings

_TIME_BASED_UUID = "TBU"
_NUMBERS = ("SEQ", "LNG", "INT")


@dataclass(frozen=True)
class PekkoOffset:
    """A row of the offset store.

    Attributes:
        projection: the projection's name.
        key: by convention the tag, or another key by which the projection is split.
        manifest: the kind of the offset.
        time: the offset of a reader by tag; None if it is of another kind, or cannot be read.
        number: the offset of a reader by persistence id; None as above.
        updated_at: when it was written.
    """

    projection: str
    key: str
    manifest: str
    time: UUID | None = None
    number: int | None = None
    updated_at: datetime | None = None


def pekko_offsets(control: Control, settings: Settings) -> list[PekkoOffset]:
    """Read all offsets of Pekko projections; none if there is no table.

    There is a row for each projection and key, as many as a cluster runs at once.
    """
    keyspace, name = settings.pekko_projection_keyspace, settings.pekko_projection_table
    if control.table_columns(keyspace, name) is None:
        return []
    rows = control.execute(
        "SELECT projection_name, projection_key, offset, manifest, last_updated"
        f" FROM {table(keyspace, name)}"
    )
    return sorted(map(offset_of, rows), key=lambda offset: (offset.projection, offset.key))


def offset_of(row: Row) -> PekkoOffset:
    """Read the offset in a row by its manifest."""
    manifest, text = row["manifest"] or "", row["offset"] or ""
    time = number = None
    with suppress(ValueError):
        if manifest == _TIME_BASED_UUID and (timeuuid := UUID(text)).version == 1:
            time = timeuuid
        if manifest in _NUMBERS:
            number = int(text)
    updated_at = row["last_updated"]
    return PekkoOffset(
        row["projection_name"],
        row["projection_key"],
        manifest or "no manifest",
        time,
        number,
        updated_at.replace(tzinfo=UTC) if updated_at else None,
    )
