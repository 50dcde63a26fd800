"""The real clock and the real plugin: actors write while the chain runs behind them.

Both ways of docs/tagging.md at once, each on a journal of its own with Minute buckets.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pendulum
from airflow.timetables.base import DataInterval

from tests.integration.support import Journal, Result, wait_until
from tests.interop.client import Client, LiveQuery, Node, event, plugin_settings
from tests.interop.support import QUICK, complete, keyed
from tests.live.chain import Chain
from tests.live.readmodels import READ_MODELS
from tests.live.truth import Event, Truth

MINUTE = timedelta(minutes=1)
IN_TIME = timedelta(seconds=5)
TAGS = ("red", "blue")
MODELS = ("tag_log", "newest")


@dataclass
class Site:
    """A journal with an application that writes it, its readers, and a chain over it."""

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
        self.chain = Chain("hourly", self.run, lambda: datetime.now(UTC), lambda _: None)
        if self.tags_by_pekko:
            self.live = self.reader.live("red")

    def run(self, application: str, arguments: object) -> Result:
        return self.journal.run(
            application,
            *arguments,  # type: ignore[misc]
            PROJECTIONS_DIR=str(self.directory / "projections"),
            DATA_DOCS_DIR=str(self.directory / "data_docs"),
            EVENTS_BY_TAG_FIRST_TIME_BUCKET=f"{datetime.now(UTC) - timedelta(days=1):%Y%m%d}",
        )

    def persist(self, pid: str, count: int, *tags: str) -> None:
        """Let an actor persist events one after the other."""
        first = self.truth.last(pid) + 1
        for number in range(first, first + count):
            self.truth.add(Event(pid, number, 0, 0, frozenset(tags), "in", number))
            payload = json.dumps({"kind": "in", "amount": number})
            self.writer.persist(pid, [[event(payload, *tags)]])

    def delete(self, pid: str, to: int) -> None:
        """Let an actor take a snapshot and delete the messages before it."""
        self.writer.snapshot(pid)
        self.writer.delete_messages(pid, to)

    def run_chain(self, start: datetime) -> None:
        """The chain of one Minute, which is out of live readers' reach by now."""
        interval = DataInterval(pendulum.instance(start), pendulum.instance(start + MINUTE))
        ended = self.chain.scheduled(interval)
        assert all(one.state != "failed" for one in ended), [str(one) for one in ended]
        assert [one.application for one in ended][:3] == ["tag_write", "validate", "project"]

    def require_equal_to_the_model(self) -> None:
        """Tag views, read models and what readers get."""
        found = {
            (row["persistence_id"], row["sequence_nr"], row["tag_name"]): row["tag_pid_sequence_nr"]
            for row in self.journal.rows("tag_views")
        }
        assert found == self.truth.numbers()
        events = list(self.truth.all())
        red = [one for one in events if "red" in one.tags]
        for name, consumed in (("tag_log", red), ("newest", events)):
            model = READ_MODELS[name]
            assert model.rows(self.journal, self.directory) == model.expected(consumed, 60_000)
        wanted = sorted((one.persistence_id, one.sequence_nr) for one in red)
        assert sorted(keyed(complete(self.reader.current("red")))) == wanted
        if self.live is not None:
            assert sorted(keyed(complete(self.live.stop()))) == wanted


def minute(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)


def wait_for_time(moment: datetime) -> None:
    wait_until(f"{moment:%H:%M:%S}", lambda: datetime.now(UTC) >= moment, 300)


def test_two_intervals_of_real_applications(
    make_journal: Callable[..., Journal], pekko: Client, tmp_path: Path
) -> None:
    first = datetime.now(UTC) - timedelta(hours=1)
    sites, nodes = [], []
    for tags_by_pekko in (True, False):
        journal = make_journal(BUCKET_SIZE="Minute")
        settings = {**QUICK, "events_by_tag__eventual_consistency_delay": "1s"}
        reader = pekko.open(plugin_settings(journal.keyspace, "Minute", first, **settings))
        off = {} if tags_by_pekko else {"events_by_tag__enabled": "off"}
        writer = pekko.open(plugin_settings(journal.keyspace, "Minute", first, **settings, **off))
        nodes += [reader, writer]
        directory = tmp_path / ("pekko" if tags_by_pekko else "tidemark")
        sites.append(Site(journal, writer, reader, directory, tags_by_pekko))
    # The whole of what is written belongs to two Minutes.
    begin = minute(datetime.now(UTC)) + MINUTE
    wait_for_time(begin)
    for site in sites:
        site.persist("a|1", 5, "red")
        site.persist("a|2", 3, "red", "blue")
        site.persist("b|1", 2)
    assert datetime.now(UTC) < begin + MINUTE, "the machine is too slow for this test"
    wait_for_time(begin + MINUTE)
    for site in sites:
        site.persist("a|1", 3, "blue", "red")
        site.persist("c|1", 2, "red")
        site.persist("b|1", 1, "red")
    assert datetime.now(UTC) < begin + 2 * MINUTE, "the machine is too slow for this test"
    wait_for_time(begin + 2 * MINUTE + IN_TIME)
    for site in sites:
        site.run_chain(begin)
        site.delete("a|1", 4)
        site.delete("a|2", 3)
    wait_for_time(begin + 3 * MINUTE + IN_TIME)
    for site in sites:
        site.run_chain(begin + MINUTE)
        site.require_equal_to_the_model()
    for node in nodes:
        node.close()
