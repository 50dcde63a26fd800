"""Random histories of keys that move between partitions, replicated by runs that die anywhere.

What is left in the end is what the actions make one after the other, in the order in which they
were written, whatever partitions they lie in.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.faults.dying import dying_after
from tests.faults.seams import Seam
from tests.integration.kafka_topic import Topic
from tests.integration.replicate.test_histories import SEAMS, SIZE, visible
from tests.integration.support import Journal
from tests.unit.replicate.replication_model import Action, Stored

pytestmark = pytest.mark.usefixtures("production")

MORE_SEAMS = (*SEAMS, Seam.RECORDS_QUARANTINED, Seam.RECORDS_RELEASED)
PARTITIONS = 3
SEEDS = 60


class Movers:
    """One writer a key; its records go to another partition from time to time."""

    def __init__(self, rng: random.Random, topic: Topic) -> None:
        self._rng, self._topic = rng, topic
        self.stored = {f"key-{number}": Stored() for number in range(12)}
        self._partition = {key: rng.randrange(PARTITIONS) for key in self.stored}
        self._last = dict.fromkeys(self.stored, 0)
        self._deleted = dict.fromkeys(self.stored, 0)
        self.unreadable: set[str] = set()

    def write(self, count: int) -> None:
        """Write so many actions."""
        for _ in range(count):
            key = self._rng.choice(list(self.stored))
            if self._rng.random() < 0.1:
                self._partition[key] = self._rng.randrange(PARTITIONS)
            if self._rng.random() < 0.01:
                self._topic.unreadable(key, partition=self._partition[key])
                self.unreadable.add(key)
            action = self._next(key)
            # Offsets of the model grow from action to action, whatever Kafka's are.
            written = action._replace(offset=sum(map(len, self._topic.log)))
            self._topic.write(key, action, partition=self._partition[key])
            if action.kind != "mark":
                self.stored[key].apply([written], SIZE)
        self._topic.flush()

    def _next(self, key: str) -> Action:
        rng, last = self._rng, self._last[key]
        kind = rng.choice(["append"] * 6 + ["delete", "mark"])
        if kind == "delete" and last > self._deleted[key]:
            self._deleted[key] = rng.randint(self._deleted[key] + 1, last)
            return Action(0, "delete", to=self._deleted[key])
        if kind == "mark":
            return Action(0, "mark")
        if rng.random() < 0.04:
            self._last[key] = self._deleted[key] = 0
            return Action(0, "purge")
        self._last[key] = last + rng.randint(1, 3)
        return Action(0, "append", tuple(range(last + 1, self._last[key] + 1)))


@pytest.mark.parametrize(
    ("seed", "runs"),
    [(0, 2), *(pytest.param(seed, 4, marks=pytest.mark.soak) for seed in range(SEEDS))],
)
def test_keys_that_move_end_as_if_all_actions_were_of_one_partition(
    kafka: str, make_journal: Callable[..., Journal], seed: int, runs: int
) -> None:
    rng = random.Random(seed)
    topic, journal = Topic(kafka, PARTITIONS), make_journal()
    topic.feeds(journal, KAFKA_JOURNAL_SEGMENT_SIZE=str(SIZE))
    movers = Movers(rng, topic)
    for _ in range(runs):
        movers.write(rng.randint(10, 60))
        seam, calls = rng.choice(MORE_SEAMS), rng.choice([1, 1, 2])
        with dying_after(seam, calls, surely=False):
            run(journal, REPLICATE_MAX_RECORDS=str(rng.choice([30, 999])))
    run(journal)
    while held := journal.own_rows("quarantined_record"):
        poison = [row for row in held if row["state"] == "held" and row["cause"]]
        if not poison:
            break
        for row in poison:
            skip = ("--key", row["id"], "--skip", str(row["offset"]), "--apply")
            result = journal.run("replicate", "replay", *skip)
            assert result.status in (0, 2), result.stderr
        run(journal)
    assert {row["state"] for row in held} <= {"skipped"}
    rows = journal.rows("journal")
    heads = {row["id"]: row for row in journal.rows("metajournal")}
    for key, stored in movers.stored.items():
        numbers = sorted(row["seq_nr"] for row in rows if row["id"] == key)
        assert (key, numbers) == (key, visible(stored))
        head, found = stored.head, heads.get(key)
        assert (key, found and (found["seq_nr"], found["delete_to"])) == (
            key,
            head and (head.seq_nr, head.delete_to),
        )
    ends = {number: len(log) - 1 for number, log in enumerate(topic.log) if log}
    assert {row["partition"]: row["offset"] for row in journal.rows("pointer2")} == ends


def run(journal: Journal, **settings: str) -> None:
    result = journal.run("replicate", **settings)
    assert result.status == 0, result.stderr
