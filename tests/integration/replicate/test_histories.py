"""Random histories, replicated by runs that are cut and that die anywhere.

What is left in the end is what a sequential model says, cell by cell; and at every moment a reader
gets of a well-behaved journal what it would get if all were replicated.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta

import pytest

from tests.faults.dying import dying_after
from tests.faults.seams import Seam
from tests.integration.kafka_topic import Topic
from tests.integration.replicate.kafka_reader import Reader
from tests.integration.support import Journal
from tests.unit.replicate.replication_model import Action, Stored, record_id

pytestmark = pytest.mark.usefixtures("production")

SEAMS = (
    Seam.RANGES_STARTED,
    Seam.DELETIONS_NOTED,
    Seam.PURGED_HEADS_MARKED,
    Seam.REPLICATED_EVENTS_DELETED,
    Seam.PURGES_DONE,
    Seam.REPLICATED_EVENTS_WRITTEN,
    Seam.REPLICATED_HEADS_WRITTEN,
    Seam.EXPIRY_REMOVED,
    Seam.DELETES_DONE,
    Seam.DELETIONS_FORGOTTEN,
    Seam.POINTERS_WRITTEN,
    Seam.RANGE_FINISHED,
)
PARTITIONS = 2
SIZE = 3
SEEDS = 60
SAMPLE = 1


class Writers:
    """Writers of journals: of any kind (`any-`), or of one that a reader can follow (`sane-`)."""

    def __init__(self, rng: random.Random, topic: Topic) -> None:
        self._rng, self._topic = rng, topic
        self.partition_of = {
            f"{kind}-{place}": place % PARTITIONS for kind in ("any", "sane") for place in range(12)
        }
        self._last = dict.fromkeys(self.partition_of, 0)
        self._deleted = dict.fromkeys(self.partition_of, 0)
        self._over: set[str] = set()

    def write(self, count: int) -> None:
        """Write so many actions."""
        for _ in range(count):
            key = self._rng.choice(list(self.partition_of))
            if key not in self._over:
                action = self._sane(key) if key.startswith("sane") else self._any(key)
                self._topic.write(key, action, partition=self.partition_of[key])
        self._topic.flush()

    def _any(self, key: str) -> Action:
        rng, last = self._rng, self._last[key]
        kind = rng.choice(["append"] * 4 + ["delete"] * 3 + ["purge", "mark"])
        origin = rng.choice(["here", "there", None])
        if kind == "append":
            first = max(1, last + rng.choice([1, 1, 1, 2, 5, -2]))
            self._last[key] = first + rng.randint(0, 3)
            numbers = tuple(range(first, self._last[key] + 1))
            return Action(0, kind, numbers, days=rng.choice([None, None, 1, 2]), origin=origin)
        to = rng.randint(1, max(last, 1) + 3) if kind == "delete" else None
        return Action(0, kind, to=to, origin=origin)

    def _sane(self, key: str) -> Action:
        rng, last = self._rng, self._last[key]
        kind = rng.choice(["append"] * 8 + ["delete", "mark"])
        if rng.random() < 0.02:
            self._over.add(key)
            return Action(0, "purge")
        if kind == "delete" and last > self._deleted[key]:
            self._deleted[key] = rng.randint(self._deleted[key] + 1, last)
            return Action(0, "delete", to=self._deleted[key])
        if kind == "mark":
            return Action(0, "mark")
        self._last[key] = last + rng.randint(1, 4)
        return Action(0, "append", tuple(range(last + 1, self._last[key] + 1)))


def model(topic: Topic) -> dict[str, Stored]:
    """Return what the actions of the topic leave, one after the other."""
    stored: dict[str, Stored] = {}
    for log in topic.log:
        for key, action in log:
            if action.kind != "mark":
                stored.setdefault(key, Stored()).apply([action], SIZE)
    return stored


def visible(stored: Stored) -> list[int]:
    """Return what a reader gets of a journal of the model."""
    if stored.head is None:
        return []
    deleted = stored.head.delete_to or 0
    return sorted(number for _, number, _ in stored.rows if number > deleted)


def check_readers(journal: Journal, topic: Topic, writers: Writers) -> None:
    """Let a reader read each well-behaved journal, from its begin and from its middle."""
    reader, expected = Reader(journal, topic), model(topic)
    for key, partition in writers.partition_of.items():
        if key.startswith("sane"):
            numbers = visible(expected.get(key, Stored()))
            for first in {1, *numbers[len(numbers) // 2 :][:1]}:
                wanted = [number for number in numbers if number >= first]
                found = reader.read(key, partition, first)
                assert (key, first, found) == (key, first, wanted)


def check_tables(journal: Journal, topic: Topic, writers: Writers, days: set[date]) -> None:
    """Compare all rows with the model; heads expire days after one of the days of the runs."""
    heads = {row["id"]: row for row in journal.rows("metajournal")}
    rows: dict[str, dict[tuple[int, int, int], str | None]] = {}
    for row in journal.rows("journal"):
        place = (row["segment"], row["seq_nr"], row["offset"])
        record = row["meta_record_id"]
        rows.setdefault(row["id"], {})[place] = None if record is None else str(record)
        assert row["payload_txt"] == str(row["seq_nr"])
    for key, stored in model(topic).items():
        partition = writers.partition_of[key]

        def named(record: int | None, key: str = key, partition: int = partition) -> str | None:
            return None if record is None else record_id(key, record, topic.name, partition)

        expected = {place: named(record) for place, record in stored.rows.items()}
        assert (key, rows.get(key, {})) == (key, expected)
        head, found = stored.head, heads.get(key)
        assert (key, found is None) == (key, head is None)
        if head is None or found is None:
            continue
        told = ("partition", "offset", "segment_size", "seq_nr", "delete_to", "origin")
        assert (key, *(found[name] for name in told)) == (
            *(key, partition, head.offset, head.size, head.seq_nr),
            *(head.delete_to, head.origin),
        )
        assert (found["record_id"] and str(found["record_id"])) == named(head.record)
        after = found["expire_after"]
        assert (None if after is None else (after.days, after.nanoseconds)) == (
            None if head.days is None else (head.days, 0)
        )
        ends = {None} if head.days is None else {day + timedelta(head.days) for day in days}
        assert (found["expire_on"] and found["expire_on"].date()) in ends
        assert found["created"] is not None
        assert found["created_date"].date() == found["created"].date()


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=[] if seed < SAMPLE else pytest.mark.soak) for seed in range(SEEDS)],
)
def test_runs_that_are_cut_and_die_leave_what_one_that_was_left_alone_leaves(
    kafka: str, make_journal: Callable[..., Journal], seed: int
) -> None:
    rng = random.Random(seed)
    topic = Topic(kafka, PARTITIONS)
    journal = make_journal()
    topic.feeds(journal, KAFKA_JOURNAL_SEGMENT_SIZE=str(SIZE))
    writers = Writers(rng, topic)
    first_day = date.today()
    died = 0
    for turn in range(4):
        writers.write(rng.randint(10, 80))
        check_if_any(journal, topic, writers)
        seam, calls = rng.choice(SEAMS), rng.choice([1, 1, 2])
        if turn == 3 and not died:
            # No run passes without it.
            seam, calls = Seam.RANGES_STARTED, 1
        with dying_after(seam, calls, surely=False) as death:
            result = journal.run("replicate", REPLICATE_MAX_RECORDS=str(rng.choice([30, 999])))
            assert result.status == 0, result.stderr
        died += death.has_come
        check_if_any(journal, topic, writers)
    result = journal.run("replicate")
    assert result.status == 0, result.stderr
    assert died
    check_readers(journal, topic, writers)
    check_tables(journal, topic, writers, {first_day, date.today()})
    ends = {number: len(log) - 1 for number, log in enumerate(topic.log)}
    assert {row["partition"]: row["offset"] for row in journal.rows("pointer2")} == ends
    assert journal.own_rows("kafka_journal_deletion") == []


def check_if_any(journal: Journal, topic: Topic, writers: Writers) -> None:
    """Check the readers, once there are tables to read."""
    if journal.control.table_columns(journal.keyspace, "pointer2") is not None:
        check_readers(journal, topic, writers)
