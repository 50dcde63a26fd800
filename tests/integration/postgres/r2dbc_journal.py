"""A journal of akka-persistence-r2dbc in a test's schema, and rows as the plugin writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.integration.postgres.databases import Database
from tidemark.cassandra.schema import SCHEMA_DIR
from tidemark.partitioning import keys

SCHEMA = SCHEMA_DIR / "akka_r2dbc.sql"
START = datetime(2024, 3, 1, tzinfo=UTC)
_COLUMNS = (
    "slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest,"
    " event_payload, deleted, writer, adapter_manifest, tags"
)


@dataclass(frozen=True)
class R2dbcEvent:
    """A row of event_journal; `seconds` is its db_timestamp in seconds since START."""

    persistence_id: str
    sequence_nr: int
    seconds: float
    payload: bytes = b"{}"
    tags: tuple[str, ...] | None = None
    is_marker: bool = False
    entity_type: str | None = None
    slice: int | None = None

    @property
    def moment(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    @property
    def row(self) -> tuple[Any, ...]:
        pid = self.persistence_id
        return (
            keys.slice_of(pid) if self.slice is None else self.slice,
            keys.entity_type(pid) if self.entity_type is None else self.entity_type,
            pid,
            self.sequence_nr,
            self.moment,
            0 if self.is_marker else 31,
            "",
            b"" if self.is_marker else self.payload,
            self.is_marker,
            "" if self.is_marker else "ae961e1e-0000-0000-0000-000000000000",
            "",
            None if self.tags is None else list(self.tags),
        )


def event(pid: str, number: int, seconds: float, *tags: str, **fields: Any) -> R2dbcEvent:
    """Return an event with a JSON payload; without tags the column is null, as in the plugin."""
    return R2dbcEvent(pid, number, seconds, json.dumps(fields).encode(), tags or None)


def marker(pid: str, deleted_to: int, seconds: float) -> R2dbcEvent:
    """Return the row that replaces deleted events; its time is that of the deletion."""
    return R2dbcEvent(pid, deleted_to, seconds, is_marker=True)


@dataclass(frozen=True)
class R2dbcJournal:
    """The tables of the plugin in a schema."""

    database: Database
    partitions: int = 1

    def create(self) -> None:
        """Make the tables, with the suffixes of the data partitions if there are several."""
        text = SCHEMA.read_text(encoding="utf-8")
        if self.partitions == 1:
            with self.database.session() as session:
                session.execute(text.encode())
            return
        for nr in range(self.partitions):
            suffixed = text.replace("event_journal", f"event_journal_{nr}").replace(
                "EXISTS snapshot", f"EXISTS snapshot_{nr}"
            )
            with self.database.session() as session:
                session.execute(suffixed.encode())

    def table(self, pid: str, name: str = "event_journal") -> str:
        """Return the table of a persistence id."""
        if self.partitions == 1:
            return name
        return f"{name}_{keys.slice_of(pid) * self.partitions // keys.NUMBER_OF_SLICES}"

    def insert(self, *events: R2dbcEvent) -> None:
        """Write rows, as if each had been committed at the time of this call."""
        marks = ", ".join(["%s"] * len(_COLUMNS.split(", ")))
        with self.database.session() as session, session.cursor() as cursor:
            for name in sorted({self.table(row.persistence_id) for row in events}):
                rows = [row.row for row in events if self.table(row.persistence_id) == name]
                statement = f"INSERT INTO {name} ({_COLUMNS}) VALUES ({marks})"
                cursor.executemany(statement.encode(), rows)

    def delete_to(self, pid: str, number: int, seconds: float) -> None:
        """Delete events as the plugin does: in one transaction, with a marker."""
        name = self.table(pid)
        with self.database.session() as session, session.transaction():
            session.execute(
                f"DELETE FROM {name} WHERE persistence_id = %s AND seq_nr <= %s".encode(),
                (pid, number),
            )
            marks = ", ".join(["%s"] * len(_COLUMNS.split(", ")))
            statement = f"INSERT INTO {name} ({_COLUMNS}) VALUES ({marks})"
            session.execute(statement.encode(), marker(pid, number, seconds).row)

    def delete_all(self, pid: str) -> None:
        """Delete all rows, as deleteAllEvents(resetSequenceNumber = true): numbers begin again."""
        self.database.execute(f"DELETE FROM {self.table(pid)} WHERE persistence_id = %s", pid)

    def insert_snapshot(self, pid: str, number: int, seconds: float, payload: bytes) -> None:
        """Write the snapshot of a persistence id, in place of the former one."""
        name = self.table(pid, "snapshot")
        self.database.execute(
            f"INSERT INTO {name} VALUES (%s, %s, %s, %s, %s, 31, '', %s)"
            " ON CONFLICT (persistence_id) DO UPDATE SET seq_nr = excluded.seq_nr,"
            " write_timestamp = excluded.write_timestamp, snapshot = excluded.snapshot",
            keys.slice_of(pid),
            keys.entity_type(pid),
            pid,
            number,
            int((START + timedelta(seconds=seconds)).timestamp() * 1000),
            payload,
        )

    def variables(self) -> dict[str, str]:
        """Return the variables of a run on this journal."""
        return {
            **self.database.endpoint.environment("JOURNAL"),
            "TIDEMARK_R2DBC_CONNECTION": "journal",
            "TIDEMARK_R2DBC_SCHEMA": self.database.schema,
            "TIDEMARK_R2DBC_DATA_PARTITIONS": str(self.partitions),
        }

    def keys(self) -> Sequence[tuple[Any, ...]]:
        """Return persistence id, sequence nr and deleted of all rows, sorted."""
        tables = sorted({self.table(f"x|{nr}") for nr in range(5000)})
        selects = " UNION ALL ".join(
            f"SELECT persistence_id, seq_nr, deleted FROM {name}" for name in tables
        )
        return sorted(self.database.rows(selects))
