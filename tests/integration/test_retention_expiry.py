"""Expired journals in a real Cassandra: which go, which stay, and what a kill leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.faults.seams import Seam
from tests.integration.contexts import context
from tests.integration.projections import Projections
from tests.integration.support import Journal
from tests.integration.test_project_sources import LOG, LOG_TABLE
from tidemark.cassandra.schema import SCHEMA_DIR, create_tables
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.partitioning.keys import java_hash
from tidemark.retention.kafka_journal import store
from tidemark.retention.kafka_journal.expiry import plan_expiry
from tidemark.retention.target import TargetPlan
from tidemark.retention.targets import WITHOUT_PEKKO

NOON = datetime(2024, 3, 10, 12, tzinfo=UTC)
SIZE = 2


@dataclass(frozen=True)
class Policy:
    zone: str = "UTC"
    topics: tuple[str, ...] = ()


class Killed(BaseException):
    """The run ended here."""


@dataclass
class Topic:
    """The tables as a replicator of the topic `orders` leaves them."""

    journal: Journal
    directory: Path
    offset: int = 0

    def context(self) -> RunContext:
        return context(
            self.journal,
            KAFKA_JOURNAL_KEYSPACE=self.journal.keyspace,
            PROJECTIONS_DIR=str(self.directory),
        )

    def plan(self, *given_up: str, **policy: Any) -> TargetPlan:
        return plan_expiry(self.context(), Policy(**policy), given_up)

    def append(self, pid: str, first: int, last: int, *, hours: float = 0.1) -> None:
        """Write events, each in a record of its own, as an append does before its head."""
        for number in range(first, last + 1):
            self.offset += 1
            row = {
                "id": pid,
                "topic": "orders",
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
        delete_to: int | None = None,
        segments: int = 10_000,
        **columns: Any,
    ) -> None:
        row = {
            "topic": "orders",
            "segment": abs(java_hash(pid.lower())) % segments,
            "id": pid,
            "partition": 0,
            "offset": self.offset,
            "segment_size": SIZE,
            "seq_nr": last,
            "delete_to": delete_to,
            "updated": NOON - timedelta(days=9),
            "created": NOON - timedelta(days=9),
            "expire_on": expire_on,
            **columns,
        }
        self.journal.insert("metajournal", [row])

    def pointer(self) -> None:
        row = {"topic": "orders", "partition": 0, "offset": self.offset}
        self.journal.insert("pointer2", [row])

    def of(self, pid: str) -> tuple[list[int], dict[str, Any] | None]:
        """Return the numbers of the rows of a journal, and its head."""
        rows = sorted(row["seq_nr"] for row in self.journal.rows("journal") if row["id"] == pid)
        heads = [row for row in self.journal.rows("metajournal") if row["id"] == pid]
        return rows, heads[0] if heads else None

    def shown(self, pid: str) -> list[int]:
        """Return what a reader of kafka-journal shows: nothing at or below delete_to."""
        rows, head = self.of(pid)
        if head is None:
            return []
        return [number for number in rows if number > (head["delete_to"] or 0)]


@pytest.fixture
def topic(
    make_journal: Callable[..., Journal], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Topic:
    journal = make_journal()
    create_tables(journal.control, SCHEMA_DIR / "kafka_journal.cql", journal.keyspace)
    monkeypatch.setattr("tidemark.clock.now", lambda: NOON)
    return Topic(journal, tmp_path)


def apply(plan: TargetPlan) -> dict[str, int]:
    assert plan.apply is not None
    return dict(plan.apply(lambda: None))


def test_every_day_up_to_today_goes_and_nothing_else(topic: Topic) -> None:
    assert [*topic.plan().lines] == ["no journal expired on 2024-03-10 or before"]
    for pid, day in (("today", 10), ("missed", 1), ("tomorrow", 11)):
        topic.append(pid, 1, 5)
        topic.head(pid, 5, date(2024, 3, day))
    topic.append("never", 1, 3)
    topic.head("never", 3, None)
    # An older release's segment of metajournal; rows that deletes and appends have left.
    topic.append("OLD", 1, 6)
    topic.head("OLD", 5, delete_to=4, segments=100)
    topic.pointer()
    plan = topic.plan()
    assert plan.counts == {
        "journals_purged": 2,
        "journals_kept": 1,
        "journals_left": 0,
        "journals_finished": 0,
    }
    assert [*plan.lines] == [
        "orders: purge 2 journals that expired from 2024-03-01 to 2024-03-10: missed, today",
        "orders: keep 1 journal: an append beyond its head is being replicated: OLD",
    ]
    assert plan.digest == topic.plan().digest
    topic.head("OLD", 6, delete_to=4, segments=100)
    plan = topic.plan()
    assert (plan.tombstones.partitions, plan.tombstones.rows) == (4 + 4 + 4, 3)
    assert apply(plan)["journals_purged"] == 3
    for pid in ("today", "missed"):
        assert topic.of(pid) == ([], None)
    # What lies two segments below delete_to was left by somebody else's crash, and is not ours.
    assert topic.of("OLD")[1] is None
    assert topic.of("tomorrow")[0] == [1, 2, 3, 4, 5]
    assert topic.of("never")[0] == [1, 2, 3]
    assert topic.journal.own_rows("kafka_journal_purge") == []
    assert topic.plan().apply is None
    # In Auckland it is the next day already.
    assert topic.plan(zone="Pacific/Auckland").counts["journals_purged"] == 1
    assert topic.plan(topics=("orders",)).counts["journals_purged"] == 0
    for wrong in ({"zone": "Nowhere"}, {"topics": ("order",)}):
        with pytest.raises(InvalidInput):
            topic.plan(**wrong)


def test_what_is_not_replicated_or_was_touched_stays(topic: Topic) -> None:
    for pid in ("a", "b", "c"):
        topic.append(pid, 1, 3)
        topic.head(pid, 3)
    assert "its last record is not wholly replicated" in topic.plan().lines[0]
    topic.pointer()
    plan = topic.plan()
    # Between plan and apply: b is appended to, of c only the events are there yet.
    topic.append("b", 4, 4)
    topic.head("b", 4, date(2024, 4, 1))
    topic.append("c", 4, 4)
    assert apply(plan) == {
        "journals_purged": 1,
        "journals_kept": 0,
        "journals_left": 0,
        "journals_finished": 0,
        "journals_moved": 2,
    }
    assert topic.of("a") == ([], None)
    assert topic.shown("b") == [1, 2, 3, 4]
    # The head stays for the append that is on its way, which then shows what is new.
    assert topic.shown("c") == [4]
    topic.head("c", 4, date(2024, 4, 1), delete_to=None)
    assert topic.shown("c") == [4]


@pytest.mark.long
def test_a_head_that_another_one_hides_stays(topic: Topic) -> None:
    topic.append("twice", 1, 3)
    topic.head("twice", 3, segments=100)
    topic.head("twice", 3, None)
    topic.pointer()
    assert "it has another head, which is the one that readers find" in topic.plan().lines[0]


@pytest.mark.long
def test_readers_of_the_topic_hold_journals_back(topic: Topic) -> None:
    projections = Projections(topic.journal, topic.directory)
    projections.define(LOG, LOG_TABLE)
    topic.journal.environment = {
        **topic.journal.environment,
        "TIDEMARK_KAFKA_JOURNAL_KEYSPACE": topic.journal.keyspace,
    }
    topic.context()
    topic.append("a", 1, 3)
    topic.head("a", 3)
    topic.append("late", 1, 2)
    topic.append("late", 3, 3, hours=2.5)
    topic.head("late", 3)
    topic.pointer()
    assert [*topic.plan().lines] == ["orders: keep 2 journals: needed by log: a, late"]
    assert projections.run(0, 2).status == 0
    assert topic.plan().lines[1] == "orders: keep 1 journal: needed by log: late"

    own = topic.journal.own_keyspace
    topic.journal.control.execute(
        f"INSERT INTO {own}.external_reader (journal_keyspace, reader, source, name,"
        " persistence_id, kafka_offsets, updated_at)"
        " VALUES (?, 'copy', 'topic', 'orders', '', ?, ?)",
        (topic.journal.keyspace, {0: 2}, NOON),
    )
    # Record 3 is a's last event.
    assert [*topic.plan().lines] == ["orders: keep 2 journals: needed by copy: a, late"]
    assert topic.plan("copy").lines[1] == "orders: keep 1 journal: needed by log: late"
    (topic.directory / "one.sql").unlink()
    plan = topic.plan("copy")
    assert plan.apply is None
    assert "log holds back what it is not done with" in plan.lines[-1]
    assert topic.plan("copy", "log").counts["journals_purged"] == 2


@pytest.mark.parametrize(
    "boundary",
    [
        Seam.KAFKA_HEADS_MARKED,
        Seam.KAFKA_SEGMENTS_DELETED,
    ],
)
def test_killed_at_a_boundary_and_run_again(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, boundary: Seam
) -> None:
    """No journal is ever shown in part, and a second run finishes.

    SIGKILL after each kind of write: tests/faults/test_purge_crashes.py.
    """
    for pid in ("a", "b"):
        topic.append(pid, 1, 9)
        topic.head(pid, 9)
    topic.append("other", 1, 3)
    topic.head("other", 3, None)
    topic.pointer()
    owner, name = boundary.place()
    write = getattr(owner, name)

    def killed(*arguments: Any) -> None:
        if boundary is Seam.KAFKA_SEGMENTS_DELETED:
            # Only some of them are gone.
            places = [(pid, orders, 2, 3, at) for pid, orders, _, _, at in arguments[2]]
            arguments = (*arguments[:2], places)
        write(*arguments)
        raise Killed

    plan = topic.plan()
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, killed)
        with pytest.raises(Killed):
            apply(plan)
    for pid in ("a", "b"):
        assert topic.shown(pid) in ([], list(range(1, 10))), boundary
    assert topic.journal.own_rows("kafka_journal_purge") != []
    apply(topic.plan())
    assert [topic.of(pid) for pid in ("a", "b")] == [([], None)] * 2
    assert topic.shown("other") == [1, 2, 3]
    assert topic.journal.own_rows("kafka_journal_purge") == []
    assert topic.plan().apply is None


@pytest.mark.long
def test_what_a_killed_run_left_of_a_journal_that_goes_on_is_finished(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.append("a", 1, 5)
    topic.head("a", 5)
    topic.pointer()
    plan = topic.plan()

    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(store, "delete_segments", killed)
        with pytest.raises(Killed):
            apply(plan)
    topic.append("a", 6, 6)
    topic.head("a", 6, date(2024, 4, 1))
    topic.pointer()
    assert topic.shown("a") == [6]
    finishing = topic.plan()
    assert [*finishing.lines] == ["finish 1 journal that an earlier purge began"]
    assert apply(finishing)["journals_finished"] == 1
    rows, head = topic.of("a")
    assert rows == [6]
    assert head is not None
    assert (head["segment_size"], head["delete_to"]) == (SIZE, 5)


def test_a_purge_of_kafka_journal_and_of_own_tables_needs_no_journal_of_pekkos(
    topic: Topic, tmp_path: Path
) -> None:
    topic.append("old", 1, 3)
    topic.head("old", 3)
    topic.pointer()
    expiry = "kafka-journal-expiry"
    own = [f"{{name: {one}, target: {one}, keep-days: 9}}" for one in WITHOUT_PEKKO - {expiry}]
    expired = f"{{name: {expiry}, target: {expiry}}}"
    file = tmp_path / "retention.yaml"
    file.write_text(f"policies: [{', '.join([expired, *own])}]")
    settings = {
        "RETENTION_FILE": str(file),
        "PROJECTIONS_DIR": str(topic.directory),
        "KAFKA_JOURNAL_KEYSPACE": topic.journal.keyspace,
        "JOURNAL_KEYSPACE": "nobody_made_it",
    }
    purged = topic.journal.run("purge", "--apply", **settings)
    assert purged.status == 0, purged.stderr
    assert purged.report["counts"]["journals_purged"] == 1
    assert topic.of("old") == ([], None)
    file.write_text(f"policies: [{expired}, {{name: tags, target: tag-views}}]")
    refused = topic.journal.run("purge", **settings)
    assert refused.status == 3
    assert "keyspace nobody_made_it does not exist" in refused.stderr
