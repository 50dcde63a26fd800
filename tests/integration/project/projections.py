"""A journal with projections on it, and the two definitions that most tests use."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.integration.support import Journal, Result
from tidemark.cassandra.control import Row
from tidemark.cassandra.schema import create_own_tables
from tidemark.project.running.outcome import COUNTS

START = datetime(2024, 3, 1, tzinfo=UTC)
HOUR_MS = 3_600_000
START_MS = int(START.timestamp()) * 1000
GREGORIAN = datetime(1582, 10, 15, tzinfo=UTC)

TOTALS = """\
/*---
name: totals
version: 1
source: {tags: [red, blue]}
mode: bucket
target: {keyspace}.totals
event: kind STRING, amount INT
---*/

SELECT time_bucket, kind, count(*) AS n, sum(amount) AS total
FROM events
GROUP BY time_bucket, kind
"""
TOTALS_TABLE = """\
CREATE TABLE {keyspace}.totals (time_bucket bigint, kind text, n bigint, total bigint,
    PRIMARY KEY ((time_bucket), kind))"""

LATEST = """\
/*---
name: latest
version: 1
source: messages
mode: upsert
target: {keyspace}.latest
event: kind STRING, amount INT
---*/

SELECT persistence_id, sequence_nr, kind, amount FROM events
"""
LATEST_TABLE = """\
CREATE TABLE {keyspace}.latest (persistence_id text PRIMARY KEY, sequence_nr bigint, kind text,
    amount int, note text)"""
FILES = """\
/*---
name: files
version: 1
source: messages
mode: export
target: files
event: kind STRING, amount INT
---*/

SELECT time_bucket, persistence_id, sequence_nr FROM events
"""


@dataclass(frozen=True)
class Event:
    """An event of the tests; `hours` is its time in hours since START."""

    persistence_id: str
    sequence_nr: int
    hours: float
    tags: frozenset[str] = frozenset()
    payload: bytes = b"{}"

    @property
    def timestamp(self) -> uuid.UUID:
        """The event's timeuuid, unique by persistence id and sequence nr."""
        moment = START + timedelta(hours=self.hours)
        ticks = (moment - GREGORIAN) // timedelta(microseconds=1) * 10 + self.sequence_nr
        fields = (ticks & 0xFFFFFFFF, ticks >> 32 & 0xFFFF, 0x1000 | ticks >> 48, 0x80, 0)
        return uuid.UUID(fields=(*fields, sum(map(ord, self.persistence_id))))

    @property
    def time_bucket(self) -> int:
        return START_MS + math.floor(self.hours) * HOUR_MS


def event(pid: str, number: int, hours: float, *tags: str, **fields: Any) -> Event:
    return Event(pid, number, hours, frozenset(tags), json.dumps(fields).encode())


@dataclass
class Projections:
    """A journal, projections on it, and their tables in the journal's keyspace."""

    journal: Journal
    directory: Path
    history: set[Event] = field(default_factory=set)
    """The events over which tag pid sequence nrs are counted."""

    def define(self, sql: str, table: str | None = None, file: str = "one.sql") -> None:
        """Write a definition and make its table."""
        keyspace = self.journal.keyspace
        (self.directory / file).write_text(sql.replace("{keyspace}", keyspace))
        if table is not None:
            self.journal.control.execute_ddl(table.format(keyspace=keyspace))

    def insert(self, *events: Event) -> None:
        """Write messages and their tag views, as Pekko does."""
        self.insert_messages(*events)
        self.insert_tag_views(*events)

    def insert_messages(self, *events: Event) -> None:
        self.history.update(events)
        self.journal.insert("messages", [_message(event) for event in events])

    def insert_tag_views(self, *events: Event) -> None:
        """Write tag views, numbered as if all of `history` had been written."""
        self.history.update(events)
        self.journal.insert(
            "tag_views",
            [
                _tag_view(event, tag, self._number(event, tag))
                for event in events
                for tag in sorted(event.tags)
            ],
        )

    def list_persistence_ids(self) -> None:
        """Write all_persistence_ids, as Pekko does with each first event and `insert` does not."""
        ids = {event.persistence_id for event in self.history}
        self.journal.insert("all_persistence_ids", [{"persistence_id": pid} for pid in ids])

    def insert_progress(self, *events: Event) -> None:
        """Write tag_write_progress as if these events were the last of their series."""
        rows = [
            {
                "persistence_id": event.persistence_id,
                "tag": tag,
                "sequence_nr": event.sequence_nr,
                "tag_pid_sequence_nr": self._number(event, tag),
                "offset": event.timestamp,
            }
            for event in events
            for tag in event.tags
        ]
        self.journal.insert("tag_write_progress", rows)

    def _number(self, event: Event, tag: str) -> int:
        before = {
            other.sequence_nr
            for other in self.history
            if other.persistence_id == event.persistence_id and tag in other.tags
        }
        return sum(number <= event.sequence_nr for number in before)

    def validated(self, *hours: int, **counts: int) -> None:
        """Note in the ledger that validate has passed these hours, with its counts for each."""
        self._note("validate", "done", *hours, **counts)

    def tagged(self, *hours: int) -> None:
        """Note in the ledger that tag-write has been over these hours."""
        self._note("tag-write", "done", *hours)

    def invalid(self, *hours: int) -> None:
        """Note in the ledger that validate has failed these hours."""
        self._note("validate", "failed", *hours)

    def purged(self, *hours: int) -> None:
        """Note in the ledger that purge has deleted the tag views of these hours."""
        self._note("purge", "done", *hours)

    def _note(self, application: str, state: str, *hours: int, **counts: int) -> None:
        create_own_tables(self.journal.control, self.journal.settings())
        self.journal.control.execute_many(
            f"INSERT INTO {self.journal.own_keyspace}.piece"
            " (application, subject, bucket_size, time_bucket, state, attempt, counts)"
            " VALUES (?, ?, ?, ?, ?, 1, ?)",
            [
                (
                    application,
                    self.journal.keyspace,
                    "Hour",
                    START_MS + hour * HOUR_MS,
                    state,
                    counts,
                )
                for hour in hours
            ],
        )

    def run(self, first_hour: int, end_hour: int, *options: str) -> Result:
        """Run project over a window, in hours since START."""
        bounds = [(START + timedelta(hours=hour)).isoformat() for hour in (first_hour, end_hour)]
        window = ("--window-start", bounds[0], "--window-end", bounds[1])
        return self.journal.run("project", *window, *options, PROJECTIONS_DIR=str(self.directory))

    def manage(self, *arguments: str) -> Result:
        """Run one of project's management commands."""
        return self.journal.run("project", *arguments, PROJECTIONS_DIR=str(self.directory))

    def states(self) -> list[tuple[str, int, str, str | None]]:
        """Return (subject without keyspace, hour, state, error) of project's pieces."""
        return sorted(
            (
                row["subject"].partition("/")[2],
                (row["time_bucket"] - START_MS) // HOUR_MS,
                row["state"],
                row["error"],
            )
            for row in self.journal.own_rows("piece")
            if row["application"] == "project"
        )

    def offsets(self) -> dict[tuple[str, str, str], tuple[int, int, uuid.UUID]]:
        """Return (slice, number, timestamp) by (projection, persistence id, tag)."""
        return {
            (row["projection"].partition("/")[2], row["persistence_id"], row["tag"]): (
                row["slice"],
                row["tag_pid_sequence_nr"] or row["sequence_nr"],
                row["timestamp"],
            )
            for row in self.journal.own_rows("projection_offset")
        }


def _message(event: Event) -> dict[str, Any]:
    return {
        "persistence_id": event.persistence_id,
        "partition_nr": 0,
        "sequence_nr": event.sequence_nr,
        "timestamp": event.timestamp,
        "timebucket": str(event.time_bucket),
        "tags": set(event.tags) or None,
        **_payload(event),
    }


def _tag_view(event: Event, tag: str, number: int) -> dict[str, Any]:
    return {
        "tag_name": tag,
        "timebucket": event.time_bucket,
        "timestamp": event.timestamp,
        "persistence_id": event.persistence_id,
        "tag_pid_sequence_nr": number,
        "sequence_nr": event.sequence_nr,
        **_payload(event),
    }


def _payload(event: Event) -> dict[str, Any]:
    return {"writer_uuid": "w", "ser_id": 20, "ser_manifest": "", "event_manifest": "", "event": event.payload}  # fmt: skip  # noqa: E501


def kind(event: Event) -> str:
    """Return the kind in the payload of an event."""
    return str(json.loads(event.payload)["kind"])


def amount(event: Event) -> int:
    """Return the amount in the payload of an event."""
    return int(json.loads(event.payload)["amount"])


def totals(events: Iterable[Event]) -> list[Row]:
    """Compute by a loop the rows that the projection TOTALS must hold."""
    rows: dict[tuple[int, str], Row] = {}
    for event in events:
        if event.tags & {"red", "blue"}:
            fields = json.loads(event.payload)
            key = (event.time_bucket, fields["kind"])
            row = rows.setdefault(key, {"time_bucket": key[0], "kind": key[1], "n": 0, "total": 0})
            row["n"] += 1
            row["total"] += fields["amount"]
    return sorted(rows.values(), key=lambda row: str(sorted(row.items())))


def counts(**changed: int) -> dict[str, int]:
    """Return the counts of a report; a count that is not given is 0."""
    return dict.fromkeys(COUNTS, 0) | changed


SOME_EVENTS = (
    event("a|1", 1, 0.1, "red", kind="in", amount=1),
    event("a|1", 2, 0.2, "red", "blue", kind="in", amount=10),
    event("a|2", 1, 0.3, "green", kind="in", amount=100),
    event("a|2", 2, 1.1, "blue", kind="out", amount=1000),
    event("a|1", 3, 1.2, "red", "green", kind="in", amount=10_000),
)
