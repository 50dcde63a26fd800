"""A journal of real flights, written by the driver, with the shipped projections.

Expected results come from loops over `tests.flights_model`; no code of Tidemark computes them.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from embedded.paths import ROOT
from examples.flights.source import flights_file
from tests import flights_model
from tests.flights_model import Event
from tests.integration.support import Journal, Result
from tidemark.cassandra.schema import SCHEMA_DIR, create_tables

DAY_MS = 86_400_000
WINDOW = ("--window-start", "2013-01-01", "--window-end", "2013-01-06")
CHAIN = ("tag_write", "validate", "project")
READ_MODELS = (
    "daily_punctuality", "aircraft_state", "flight_log", "aircraft_use", "delay_classes",
)  # fmt: skip
OFFSET_COLUMNS = ("projection", "slice", "persistence_id", "tag", "sequence_nr", "timestamp")
CURSOR_COLUMNS = ("projection", "slice", "timestamp")
OWN_TABLES = {
    "projection_offset": OFFSET_COLUMNS,
    "projection_cursor": CURSOR_COLUMNS,
    "finding": ("time_bucket", "check_name", "persistence_id", "tag", "number", "expected"),
    "quarantine": ("application", "persistence_id", "sequence_nr", "timestamp", "cause", "event"),
    "tag_write_tail": ("persistence_id", "sequence_nr", "read_to", "series", "rules_version"),
    "validate_tail": ("persistence_id", "tag", "tag_pid_sequence_nr", "timestamp"),
}
"""Columns of Tidemark's own tables that equal work leaves equal; run ids and times differ."""
LASTING_COUNTS = {"project": ("events_read", "rows_written", "quarantined")}
"""Counts of pieces that later runs rely on. How many missing rows a run wrote is left out: it
differs after a killed run."""
WRITE_TIMES = {"aircraft_state": "kind", "flight_log": "kind", "aircraft_use": "departures"}
"""By read model, a column whose write time is fixed by the definition's mode. In the other read
models the write time grows."""


@cache
def first_events(flights: int | None) -> tuple[Event, ...]:
    """Return the events of the first flights of 2013, or of all flights without a number."""
    return tuple(flights_model.events(flights_model.read_csv(flights_file(), flights)))


def defined(
    make_journal: Callable[..., Journal], directory: Path, *definitions: str, **settings: str
) -> Journal:
    """Return an empty journal with Day buckets, with projections pointed at its keyspace.

    `definitions` are directories below include/sql, `projections` or `examples`; definitions in
    Python are below include/projections.
    """
    directory.mkdir(parents=True)
    journal = make_journal(
        BUCKET_SIZE="Day",
        PROJECTIONS_DIR=str(directory),
        DATA_DOCS_DIR=str(directory / "data_docs"),
        EXPORT_DIR=str(directory / "export"),
        **settings,
    )
    create_tables(journal.control, SCHEMA_DIR / "flights.cql", journal.keyspace)
    include = ROOT / "include"
    for name in definitions:
        in_python = (include / "projections" / name).glob("*.py")
        for file in (*(include / "sql" / name).glob("*.sql"), *in_python):
            text = file.read_text().replace("target: flights.", f"target: {journal.keyspace}.")
            text = text.replace('target="flights.', f'target="{journal.keyspace}.')
            (directory / file.name).write_text(text)
    return journal


@dataclass(frozen=True)
class FlightsJournal:
    """A journal with Day buckets that holds given events, and the read models beside it."""

    journal: Journal
    events: tuple[Event, ...]

    @classmethod
    def create(
        cls,
        make_journal: Callable[..., Journal],
        directory: Path,
        flights: int,
        *definitions: str,
        **settings: str,
    ) -> FlightsJournal:
        """Make a journal as `defined` does, by default with `projections`; write the events."""
        journal = defined(make_journal, directory, *(definitions or ["projections"]), **settings)
        events = first_events(flights)
        journal.insert("messages", [message(event) for event in events])
        return cls(journal, events)

    def run_chain(self, *applications: str) -> list[Result]:
        """Run applications one after the other over the whole window; each must succeed."""
        results = [self.journal.run(name, *WINDOW) for name in applications]
        assert [result.status for result in results] == [0] * len(results), results[-1].stderr
        return results

    def everything(self) -> dict[str, list[Any]]:
        """Return all that applications write and that does not depend on the run or its time."""
        tables: dict[str, list[Any]] = dict(self.journal.tag_tables())
        for name in READ_MODELS:
            tables[name] = self.journal.rows(name)
        for name, columns in OWN_TABLES.items():
            # The projection's name holds the journal's, which differs from test to test.
            tables[name] = sorted(
                str([str(row[column]).split("/")[-1] for column in columns])
                for row in self.journal.own_rows(name)
            )
        tables["piece"] = sorted(map(_piece, self.journal.own_rows("piece")))
        for name, column in WRITE_TIMES.items():
            tables[f"write times of {name}"] = self._write_times(name, column)
        return tables

    def _write_times(self, name: str, column: str) -> list[str]:
        rows = self.journal.control.execute(
            f"SELECT persistence_id, sequence_nr, WRITETIME({column}) AS written_at"
            f" FROM {self.journal.keyspace}.{name}"
        )
        return sorted(str(sorted(row.items())) for row in rows)


def _piece(row: Mapping[str, Any]) -> str:
    """Return the key, outcome and counts of a piece of the ledger as text."""
    counts = row["counts"] or {}
    kept = {name: counts.get(name) for name in LASTING_COUNTS.get(row["application"], ())}
    subject = row["subject"].partition("/")[2]
    place = (row["application"], subject, row["bucket_size"], row["time_bucket"])
    return str((*place, row["state"], row["error"], kept))


def message(event: Event) -> dict[str, Any]:
    """Return a row of messages as Pekko writes it."""
    ticks = event.time_ms * 10_000 + event.place_in_ms + 0x01B21DD213814000
    version_1 = 0x1000 | ticks >> 48
    fields = (ticks & 0xFFFFFFFF, ticks >> 32 & 0xFFFF, version_1, 0x80, 1, 0x010203040506)
    return {
        "persistence_id": event.persistence_id,
        "partition_nr": 0,
        "sequence_nr": event.sequence_nr,
        "timestamp": uuid.UUID(fields=fields),
        "timebucket": str(event.time_ms // DAY_MS * DAY_MS),
        "writer_uuid": "4dc14ce7-809d-45c0-8869-7e69a7a86579",
        "ser_id": 20,
        "ser_manifest": "",
        "event_manifest": "",
        "event": json.dumps(event.payload).encode(),
        "tags": set(event.tags),
    }


def expected_tag_rows(events: Sequence[Event]) -> set[tuple[str, int, str, int, int]]:
    """Return (tag, time bucket, persistence id, tag pid sequence nr, sequence nr) per tag row."""
    return {
        (
            row.tag,
            row.event.time_ms // DAY_MS * DAY_MS,
            row.persistence_id,
            row.tag_pid_sequence_nr,
            row.event.sequence_nr,
        )
        for row in flights_model.tag_rows(events)
    }


def expected_punctuality(events: Sequence[Event]) -> dict[tuple[int, str, str], dict[str, int]]:
    """Return the counts of the read model by (time bucket, carrier, origin)."""
    result: dict[tuple[int, str, str], dict[str, int]] = {}
    for event in events:
        payload = event.payload
        kind = str(payload["kind"])
        if kind == "scheduled":
            continue
        key = (event.time_ms // DAY_MS * DAY_MS, str(payload["carrier"]), str(payload["origin"]))
        counts = result.setdefault(key, defaultdict(int))
        counts[kind] += 1
        if kind == "departed":
            delay = int(payload["dep_delay"])
            counts["delayed"] += delay > 15
            counts["dep_delay_sum"] += delay
        if kind == "arrived":
            counts["arr_delay_sum"] += int(payload["arr_delay"])
    return result


def expected_state(events: Sequence[Event]) -> dict[str, Event]:
    """Return the newest event of each aircraft."""
    newest: dict[str, Event] = {}
    for event in events:
        if event.sequence_nr >= newest.get(event.persistence_id, event).sequence_nr:
            newest[event.persistence_id] = event
    return newest
