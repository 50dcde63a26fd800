"""Pages of the replicated topic partitions, and of their held keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.replicate.progress.replicated_to import UpTo
from tidemark.replicate.quarantined import KEEPS_BACK, TABLE, Quarantined

MOST_TOPICS = 10_000


@dataclass(frozen=True)
class HeldKey:
    """A key with records in quarantine.

    Attributes:
        partition: the topic partition.
        state: whether the records are held, or wait because their key has moved.
        key: the key.
        records: number of records of the key in this state.
        first: the lowest offset of the records.
        since: when the first record was found.
    """

    partition: TopicPartition
    state: Quarantined
    key: str
    records: int
    first: int
    since: datetime


def topics(run: RunContext) -> list[str]:
    """Return the replicated topics of the keyspace, sorted."""
    name = table(run.settings.keyspace, "replicated_topic")
    rows = run.control.stream(f"SELECT DISTINCT journal_keyspace, topic FROM {name}", page=1000)
    return sorted(
        row["topic"]
        for row in islice(rows, MOST_TOPICS)
        if row["journal_keyspace"] == run.settings.kafka_journal_keyspace
    )


def page(
    run: RunContext, names: Sequence[str], *, limit: int, after: TopicPartition | None = None
) -> dict[TopicPartition, UpTo]:
    """Return how far partitions are replicated, sorted; `names` are sorted topics."""
    replicated: dict[TopicPartition, UpTo] = {}
    for topic in names:
        if after is not None and topic < after.topic:
            continue
        last_number = after.partition if after is not None and topic == after.topic else -1
        rows = run.control.execute(
            "SELECT partition, replicated_to, end_offset"
            f" FROM {table(run.settings.keyspace, 'replicated_topic')}"
            " WHERE journal_keyspace = ? AND topic = ? AND partition > ? LIMIT ?",
            (run.settings.kafka_journal_keyspace, topic, last_number, limit - len(replicated)),
        )
        replicated |= {
            TopicPartition(topic, row["partition"]): UpTo(
                row["replicated_to"].replace(tzinfo=UTC), row["end_offset"] or 0
            )
            for row in rows
        }
        if len(replicated) == limit:
            break
    return replicated


def held_keys(
    run: RunContext, partition: TopicPartition, state: Quarantined, *, limit: int, after: str = ""
) -> list[HeldKey]:
    """Return the keys of a partition with records in a state, sorted, after a key."""
    rows = run.control.execute(
        "SELECT id, count(*) AS records, min(offset) AS first, min(found_at) AS since"
        f" FROM {table(run.settings.keyspace, TABLE)} WHERE journal_keyspace = ? AND topic = ?"
        " AND partition = ? AND state = ? AND id > ?"
        " GROUP BY journal_keyspace, topic, partition, state, id LIMIT ?",
        (
            *(run.settings.kafka_journal_keyspace, partition.topic, partition.partition),
            *(state, after, limit),
        ),
    )
    return [
        HeldKey(
            *(partition, state, row["id"], row["records"], row["first"]),
            row["since"].replace(tzinfo=UTC),
        )
        for row in rows
    ]


STATES = KEEPS_BACK
"""The states of records that hold later ones, in the order of the pages of held keys."""
