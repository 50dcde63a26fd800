"""Which expired journals purge would delete, and which it keeps and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.integration import kafka_topic
from tests.integration.contexts import context
from tests.integration.project.projections import Projections
from tests.integration.project.test_sources import LOG, LOG_TABLE
from tests.integration.support import Journal
from tests.java_hash import java_hash
from tidemark.cassandra.schema import SCHEMA_DIR, create_tables
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.purge.kafka_journal import expiry
from tidemark.purge.kafka_journal.expiry import plan_expiry
from tidemark.purge.target import TargetPlan
from tidemark.purge.targets import WITHOUT_PEKKO

NOON = datetime(2024, 3, 10, 12, tzinfo=UTC)
SIZE = 2


@dataclass(frozen=True)
class Policy:
    zone: str | None = None
    topics: tuple[str, ...] = ()


@dataclass
class Topic:
    """The tables as a replicator leaves them; the topic has a mark in place of each record."""

    journal: Journal
    directory: Path
    kafka: kafka_topic.Topic
    offset: int = -1

    @property
    def name(self) -> str:
        return self.kafka.name

    def context(self, **settings: str) -> RunContext:
        return context(self.journal, PROJECTIONS_DIR=str(self.directory), **settings)

    def plan(self, *given_up: str, **policy: Any) -> TargetPlan:
        self.kafka.flush()
        return plan_expiry(self.context(), Policy(**policy), given_up)

    def lines(self, *given_up: str) -> list[str]:
        """Return the lines of the plan without the name of the topic."""
        return [line.removeprefix(f"{self.name}: ") for line in self.plan(*given_up).lines]

    def append(self, pid: str, first: int, last: int, *, hours: float = 0.1) -> None:
        """Write events, each in a record of its own, as an append does before its head."""
        for number in range(first, last + 1):
            self.offset += 1
            self.kafka.mark(pid)
            row = {
                "id": pid,
                "topic": self.name,
                "segment": (number - 1) // SIZE,
                "seq_nr": number,
                "timestamp": datetime(2024, 3, 1, tzinfo=UTC) + timedelta(hours=hours),
                "partition": 0,
                "offset": self.offset,
                "payload_type": "json",
                "payload_txt": json.dumps({"kind": f"k{number}", "amount": number}),
            }
            self.journal.insert("journal", [row])

    def head(
        self,
        pid: str,
        last: int,
        expire_on: date | None = date(2024, 3, 9),
        *,
        segments: int = 10_000,
        **columns: Any,
    ) -> None:
        row = {
            "topic": self.name,
            "segment": abs(java_hash(pid.lower())) % segments,
            "id": pid,
            "partition": 0,
            "offset": self.offset,
            "segment_size": SIZE,
            "seq_nr": last,
            "expire_on": expire_on,
            **columns,
        }
        self.journal.insert("metajournal", [row])

    def pointer(self) -> None:
        row = {"topic": self.name, "partition": 0, "offset": self.offset}
        self.journal.insert("pointer2", [row])


@pytest.fixture
def topic(
    make_journal: Callable[..., Journal],
    kafka: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Topic:
    journal = make_journal()
    create_tables(journal.control, SCHEMA_DIR / "kafka_journal.cql", journal.keyspace)
    monkeypatch.setattr("tidemark.clock.now", lambda: NOON)
    one = kafka_topic.Topic(kafka)
    one.feeds(journal)
    return Topic(journal, tmp_path, one)


def test_a_journal_expires_when_its_day_is_over(topic: Topic) -> None:
    assert [*topic.plan().lines] == ["no journal has expired before 2024-03-10"]
    for pid, day in (("yesterday", 9), ("missed", 1), ("today", 10), ("tomorrow", 11)):
        topic.append(pid, 1, 5)
        topic.head(pid, 5, date(2024, 3, day))
    topic.append("never", 1, 3)
    topic.head("never", 3, None)
    # An older release's segment of metajournal.
    topic.append("OLD", 5, 6)
    topic.head("OLD", 6, delete_to=4, segments=100)
    assert topic.lines() == [
        "keep 3 journals: its records are not replicated yet: OLD, missed, yesterday"
    ]
    topic.pointer()
    plan = topic.plan()
    assert plan.counts == {"journals_purged": 3, "journals_kept": 0, "journals_left": 0}
    assert topic.lines() == [
        "purge 3 journals that expired from 2024-03-01 to 2024-03-09: OLD, missed, yesterday"
    ]
    assert plan.digest == topic.plan().digest
    # One segment more on both sides, which the first of a journal does not have.
    assert (plan.tombstones.partitions, plan.tombstones.rows) == (4 + 4 + 4, 3)
    topic.head("missed", 6, date(2024, 3, 2))
    assert plan.digest != topic.plan().digest
    assert topic.plan(topics=(topic.name,)).counts["journals_purged"] == 3
    with pytest.raises(InvalidInput, match="no topic order was ever replicated"):
        topic.plan(topics=("order",))


@pytest.mark.long
def test_a_day_is_over_in_the_time_zone_of_the_settings(topic: Topic) -> None:
    topic.append("a", 1, 1)
    topic.head("a", 1, date(2024, 3, 10))
    topic.pointer()
    topic.kafka.flush()
    # In Auckland it is the next day already.
    run = topic.context(KAFKA_JOURNAL_ZONE="Pacific/Auckland")
    for zone in (None, "Pacific/Auckland"):
        assert plan_expiry(run, Policy(zone)).counts["journals_purged"] == 1
    assert topic.plan(zone="UTC").counts["journals_purged"] == 0
    with pytest.raises(InvalidInput, match="contradicts TIDEMARK_KAFKA_JOURNAL_ZONE, which is UTC"):
        topic.plan(zone="Pacific/Auckland")


def test_journals_that_are_kept_do_not_block_others_and_topics_take_turns(
    topic: Topic, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "MOST_JOURNALS", 3)
    other = Topic(
        topic.journal, topic.directory, kafka_topic.Topic(kafka, prefix=f"{topic.kafka.prefix}-b")
    )
    for one, ids in ((topic, "pqrs"), (other, "xy")):
        for day, pid in enumerate(ids, start=1):
            one.append(pid, 1, 1)
            one.head(pid, 1, date(2024, 3, day))
        one.pointer()
    for day in (1, 2, 3):
        # The oldest ones have a seq_nr that leaps.
        topic.head(f"leaps-{day}", 2**40, date(2024, 2, day))
    other.kafka.flush()
    plan = topic.plan()
    assert plan.counts == {"journals_purged": 3, "journals_kept": 3, "journals_left": 3}
    purged = [line for line in plan.lines if "purge" in line]
    assert [line.rpartition(": ")[2] for line in purged] == ["x, y", "p"]
    assert "3 more expired journals left for the next run" in plan.lines
    assert any("more than 100,000 segments: leaps-1, leaps-2, leaps-3" in one for one in plan.lines)


@pytest.mark.long
def test_a_head_that_another_one_hides_does_not_count(topic: Topic) -> None:
    topic.append("twice", 1, 3)
    topic.head("twice", 3, segments=100)
    topic.head("twice", 3, None)
    topic.pointer()
    assert topic.lines() == ["no journal has expired before 2024-03-10"]


@pytest.mark.long
def test_a_topic_partition_that_lags_by_more_than_a_batch_is_left_alone(topic: Topic) -> None:
    topic.append("a", 1, 1)
    topic.head("a", 1)
    topic.pointer()
    for number in range(3):
        topic.kafka.mark(f"{number}")
    topic.kafka.flush()
    plan = plan_expiry(topic.context(REPLICATE_MAX_RECORDS="2"), Policy())
    assert "more than 2 records of its topic partition are not replicated yet: a" in plan.lines[0]
    assert plan_expiry(topic.context(REPLICATE_MAX_RECORDS="3"), Policy()).apply is not None


@pytest.mark.long
def test_a_topic_that_kafka_does_not_have_is_left_alone(topic: Topic) -> None:
    topic.append("a", 1, 1)
    topic.head("a", 1)
    topic.pointer()
    topic.kafka.flush()
    plan = plan_expiry(topic.context(KAFKA_TOPIC_PREFIX="nobody"), Policy())
    assert plan.apply is None
    assert "Kafka has no such topic with the prefix nobody, or" in plan.lines[0]


def test_readers_of_the_topic_hold_journals_back(topic: Topic) -> None:
    projections = Projections(topic.journal, topic.directory)
    projections.define(LOG.replace("orders", topic.name), LOG_TABLE)
    topic.context()
    topic.append("a", 1, 3)
    topic.head("a", 3)
    topic.append("late", 1, 2)
    topic.append("late", 3, 3, hours=2.5)
    topic.head("late", 3)
    topic.pointer()
    assert topic.lines() == ["keep 2 journals: needed by log: a, late"]
    assert projections.run(0, 2).status == 0
    assert topic.lines()[1] == "keep 1 journal: needed by log: late"

    own = topic.journal.own_keyspace
    topic.journal.control.execute(
        f"INSERT INTO {own}.external_reader (journal_keyspace, reader, source, name,"
        " persistence_id, kafka_offsets, updated_at)"
        " VALUES (?, 'copy', 'topic', ?, '', ?, ?)",
        (topic.journal.keyspace, topic.name, {0: 1}, NOON),
    )
    # Record 2 is a's last event.
    assert topic.lines() == ["keep 2 journals: needed by copy: a, late"]
    assert topic.lines("copy")[1] == "keep 1 journal: needed by log: late"
    (topic.directory / "one.sql").unlink()
    plan = topic.plan("copy")
    assert plan.apply is None
    assert "log holds back what it is not done with" in plan.lines[-1]
    assert topic.plan("copy", "log").counts["journals_purged"] == 2


def test_a_purge_of_kafka_journal_and_of_own_tables_needs_no_journal_of_pekkos(
    topic: Topic, tmp_path: Path
) -> None:
    topic.append("old", 1, 3)
    topic.head("old", 3)
    topic.pointer()
    topic.kafka.flush()
    expiry = "kafka-journal-expiry"
    own = [f"{{name: {one}, target: {one}, keep-days: 9}}" for one in WITHOUT_PEKKO - {expiry}]
    expired = f"{{name: {expiry}, target: {expiry}}}"
    file = tmp_path / "retention.yaml"
    file.write_text(f"policies: [{', '.join([expired, *own])}]")
    settings = {
        "RETENTION_FILE": str(file),
        "PROJECTIONS_DIR": str(topic.directory),
        "JOURNAL_KEYSPACE": "nobody_made_it",
    }
    purged = topic.journal.run("purge", "--apply", **settings)
    assert purged.status == 0, purged.stderr
    assert purged.report["counts"]["journals_purged"] == 1
    file.write_text(f"policies: [{expired}, {{name: tags, target: tag-views}}]")
    refused = topic.journal.run("purge", **settings)
    assert refused.status == 3
    assert "keyspace nobody_made_it does not exist" in refused.stderr
