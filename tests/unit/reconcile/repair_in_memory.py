"""The operation repair, with the histories of `stored_history_model` instead of Cassandra."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock, patch

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as Stored

from tests.unit.project.stored_history_frames import Finding, keys_of
from tests.unit.project.stored_history_model import Event, History, Journal, Progress, Row
from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.journals.pekko import bucket_size, tables
from tidemark.journals.pekko.messages import messages_by_key
from tidemark.journals.pekko.shapes import EVENT_PAYLOAD, TAG_ROW_KEYS, WHOLE_MESSAGES
from tidemark.journals.pekko.tag_view_rows import TAG_VIEW_KEY
from tidemark.ledger import quarantine
from tidemark.reconcile.findings import store as store_of_findings
from tidemark.reconcile.findings.find import ComparisonResult
from tidemark.reconcile.repair import run as repair
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import ddl
from tidemark.tag_write import completeness, rules
from tidemark.validate.scope import Scope
from tidemark.validate.shapes import EVIDENCE, WEIGHED

ORDER = (
    "ids_forgotten",
    "events_quarantined",
    "tag_rows_written",
    "tag_rows_deleted",
    "progress_rows_written",
    "progress_rows_deleted",
    "scanning_rows_written",
)
"""After a death between any two, the next run finds what is wrong."""
_KEYS = ("persistence_id", "sequence_nr", "timestamp")
_PAYLOAD = {**EVENT_PAYLOAD, "writer_uuid": "string"}


def repaired(spark: SparkSession, journal: Journal, findings: list[Finding]) -> tuple[Journal, int]:
    """Return the journal after `repair` of the findings, and the number of changed tag rows."""
    stored = _Tables(spark, journal)
    shape = {**WEIGHED, **EVIDENCE}
    rows = [tuple(finding.get(name) for name in shape) for finding in findings]
    found = local_rows(spark, rows, ddl(shape)).localCheckpoint()
    read = SimpleNamespace(keys=keys_of(spark, journal))
    comparison = ComparisonResult(
        cast(Any, SimpleNamespace(found=found, findings=found, read=read)),
        {},
        read_at=1,
        read={"messages_checked": 0, "exempt_rows": 0, "settled_findings": 0},
    )
    run = RunContext("reconcile", stored.settings, MagicMock(), "r1")
    with ExitStack() as patches:
        for place, name, stand_in in (
            (connector, "write", stored.write),
            (connector, "delete", stored.delete),
            (connector, "read_partitions", stored.read_rows),
            (messages_by_key, "messages_of", stored.messages_of),
            (bucket_size, "record_bucket_size", MagicMock()),
            (rules, "record", MagicMock()),
            (rules, "load", lambda _: []),
            (store_of_findings, "replace", MagicMock()),
        ):
            patches.enter_context(patch.object(place, name, stand_in))
        plan = repair.planned(run, Scope(), Scope(), comparison, is_found=True)
        assert plan.apply is not None
        plan.apply(lambda: None)
    assert [name for name in ORDER if name in stored.counts] == [*stored.counts]
    forgotten = stored.counts.pop("ids_forgotten", 0)
    assert forgotten == len({finding["persistence_id"] for finding in findings})
    assert stored.counts == {name: count for name, count in plan.counts.items() if count}
    return stored.journal, stored.counts["tag_rows_written"] + stored.counts["tag_rows_deleted"]


class _Tables:
    """The tables that a repair reads and changes; a write that changes nothing fails."""

    def __init__(self, spark: SparkSession, journal: Journal) -> None:
        self.settings = Settings()
        self.before, self.journal = journal, dict(journal)
        self.counts: Counter[str] = Counter()
        self._spark = spark
        self._writes: dict[str, tuple[str, Callable[[Stored], None]]] = {
            quarantine.TABLE: ("events_quarantined", self._quarantine),
            self.settings.events_by_tag_table: ("tag_rows_written", self._write_row),
            tables.TAG_WRITE_PROGRESS: ("progress_rows_written", self._write_progress),
            tables.TAG_SCANNING: ("scanning_rows_written", self._write_scanning),
        }
        self._deletes: dict[str, tuple[str, Callable[[Stored], None]]] = {
            completeness.TABLE: ("ids_forgotten", lambda _: None),
            self.settings.events_by_tag_table: ("tag_rows_deleted", self._delete_row),
            tables.TAG_WRITE_PROGRESS: ("progress_rows_deleted", self._delete_progress),
        }

    def write(self, frame: DataFrame, keyspace: str, table: str, **options: object) -> None:
        self._each(frame, *self._writes[table])

    def delete(self, keys: DataFrame, keyspace: str, table: str) -> None:
        self._each(keys, *self._deletes[table])

    def _each(self, frame: DataFrame, name: str, change: Callable[[Stored], None]) -> None:
        for row in frame.collect():
            self.counts[name] += 1
            change(row)

    def read_rows(self, keys: DataFrame, keyspace: str, table: str, *columns: str) -> DataFrame:
        """Return whole rows of the tag views as they were."""
        assert table == self.settings.events_by_tag_table
        rows = [
            (
                *(row.tag, row.time_bucket, row.event.timestamp, pid, row.number),
                *(row.event.number, *_payload(pid, row.event)),
            )
            for pid, history in self.before.items()
            for row in history.rows
        ]
        key = dict(zip(TAG_VIEW_KEY, TAG_ROW_KEYS.values(), strict=True))
        shape = {**key, "sequence_nr": "bigint", **_PAYLOAD}
        stored = local_rows(self._spark, rows, ddl(shape))
        return stored.join(keys, on=keys.columns, how="left_semi").select(*columns)

    def messages_of(self, run: RunContext, events: DataFrame, number: int | None) -> DataFrame:
        """Return the messages of events, with their payload."""
        rows = [
            (
                *(pid, event.number, event.timestamp, event.ticks, event.time_bucket),
                *([*event.tags], *_payload(pid, event)),
            )
            for pid, history in self.before.items()
            for event in history.events
        ]
        shape = {name: WHOLE_MESSAGES[name] for name in (*_KEYS, "ticks", "time_bucket", "tags")}
        messages = local_rows(self._spark, rows, ddl({**shape, **_PAYLOAD}))
        return messages.join(events, on=[*_KEYS], how="left_semi")

    def _change(self, persistence_id: str, history: History) -> None:
        assert history != self.journal[persistence_id]
        self.journal[persistence_id] = history

    def _event(self, row: Stored) -> Event:
        history = self.before[row.persistence_id]
        events = [*(stored.event for stored in history.rows), *history.events]
        return next(event for event in events if event.timestamp == row.timestamp)

    def _quarantine(self, row: Stored) -> None:
        assert self._event(row).cause is not None

    def _write_row(self, row: Stored) -> None:
        event = self._event(row)
        assert tuple(row[name] for name in _PAYLOAD) == _payload(row.persistence_id, event)
        assert row.sequence_nr == event.number
        written = Row(row.tag_name, row.tag_pid_sequence_nr, event, row.timebucket)
        self._change(row.persistence_id, self.journal[row.persistence_id].with_rows(written))

    def _delete_row(self, row: Stored) -> None:
        deleted = Row(row.tag_name, row.tag_pid_sequence_nr, self._event(row), row.timebucket)
        self._change(row.persistence_id, self.journal[row.persistence_id].without_rows(deleted))

    def _write_progress(self, row: Stored) -> None:
        progress = Progress(row.sequence_nr, row.tag_pid_sequence_nr, row.offset)
        self._change(
            row.persistence_id, self.journal[row.persistence_id].with_progress(row.tag, progress)
        )

    def _delete_progress(self, row: Stored) -> None:
        self._change(
            row.persistence_id, self.journal[row.persistence_id].with_progress(row.tag, None)
        )

    def _write_scanning(self, row: Stored) -> None:
        history = self.journal[row.persistence_id]
        self._change(row.persistence_id, replace(history, scanned_to=row.sequence_nr))


def _payload(persistence_id: str, event: Event) -> tuple[Any, ...]:
    """Return the payload columns of an event, of which no other event has the same."""
    payload = None if event.cause else f"{persistence_id} {event.timestamp}".encode()
    others = {"ser_id": 1, "ser_manifest": "m", "event_manifest": "", "writer_uuid": "w"}
    return tuple(payload if name == "event" else others.get(name) for name in _PAYLOAD)
