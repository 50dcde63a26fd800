"""A journal with the real clock and the real plugin, written while the chain works on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pendulum
from airflow.timetables.base import DataInterval

from tests.integration.support import Journal, Result
from tests.interop.client import LiveQuery, Node, event
from tests.interop.support import complete, keyed
from tests.live.chain import Chain
from tests.live.readmodels import READ_MODELS
from tests.live.truth import Event, Truth
from tidemark.cassandra.control import Row

MINUTE_MS = 60_000
MODELS = ("tag_log", "newest")


@dataclass
class Site:
    """A journal with an application that writes it, with its readers, and a chain over it."""

    journal: Journal
    writer: Node
    reader: Node
    directory: Path
    tags_by_pekko: bool
    truth: Truth = field(default_factory=Truth)
    live: LiveQuery | None = None

    def __post_init__(self) -> None:
        projections = self.directory / "projections"
        projections.mkdir(parents=True)
        for name in MODELS:
            READ_MODELS[name].define(self.journal, projections)
        of_airflow = {
            "TIDEMARK_CADENCE": "hourly",
            "TIDEMARK_BUCKET_SIZE": "Minute",
            "TIDEMARK_PROJECTIONS_DIR": str(projections),
        }
        self.chain = Chain(of_airflow, self.run, lambda: datetime.now(UTC), lambda _: None)
        if self.tags_by_pekko:
            self.live = self.reader.live("red")

    def run(self, application: str, arguments: Sequence[str]) -> Result:
        return self.journal.run(application, *arguments, **self.settings())

    def settings(self) -> dict[str, str]:
        """The settings that the applications need for this journal."""
        return {
            "PROJECTIONS_DIR": str(self.directory / "projections"),
            "DATA_DOCS_DIR": str(self.directory / "data_docs"),
            "EVENTS_BY_TAG_FIRST_TIME_BUCKET": f"{datetime.now(UTC) - timedelta(days=1):%Y%m%d}",
        }

    def own_rows(self, name: str) -> list[Row]:
        """Return the rows of one of Tidemark's tables, none before the first run has made it."""
        made = self.journal.control.table_columns(self.journal.own_keyspace, name)
        return [] if made is None else self.journal.own_rows(name)

    def persist(self, pid: str, count: int, *tags: str) -> None:
        """Let an actor persist `count` events, one after the other."""
        first = self.truth.last(pid) + 1
        for number in range(first, first + count):
            self.truth.add(Event(pid, number, 0, 0, frozenset(tags), "in", number))
            payload = json.dumps({"kind": "in", "amount": number})
            self.writer.persist(pid, [[event(payload, *tags)]])

    def delete(self, pid: str, to: int) -> None:
        """Let an actor take a snapshot and delete its messages up to `to`."""
        self.writer.snapshot(pid)
        self.writer.delete_messages(pid, to)

    def run_chain(self, start: datetime, end: datetime) -> None:
        """Run the chain of an interval that is out of live readers' reach by now."""
        interval = DataInterval(pendulum.instance(start), pendulum.instance(end))
        ended = self.chain.scheduled(interval)
        assert all(run.state != "failed" for run in ended), [str(run) for run in ended]
        assert [run.application for run in ended][:3] == ["tag_write", "validate", "project"]

    def require_equal_to_the_model(self) -> None:
        """Require that tag views, read models and readers agree with the model."""
        numbers = {
            (row["persistence_id"], row["sequence_nr"], row["tag_name"]): row["tag_pid_sequence_nr"]
            for row in self.journal.rows("tag_views")
        }
        assert numbers == self.truth.numbers()
        events = list(self.truth.all())
        red = [event for event in events if "red" in event.tags]
        for name, consumed in (("tag_log", red), ("newest", events)):
            model = READ_MODELS[name]
            assert model.rows(self.journal, self.directory) == model.expected(consumed, MINUTE_MS)
        red_keys = sorted((event.persistence_id, event.sequence_nr) for event in red)
        assert sorted(keyed(complete(self.reader.current("red")))) == red_keys
        if self.live is not None:
            assert sorted(keyed(complete(self.live.stop()))) == red_keys
