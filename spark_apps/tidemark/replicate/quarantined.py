"""The states of records in quarantine, and topic partitions by state; without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.replicate.kafka.topics import TopicPartition

TABLE = "quarantined_record"


class Quarantined(StrEnum):
    """The state of a record in quarantine.

    HELD: waits for `replay`, with all later records of its key. WAITING: waits until all partitions
    with records of its key are read. SKIPPED: permanently skipped. MENDED: replicated with the
    content that `mend` gave it.
    """

    HELD = "held"
    WAITING = "waiting"
    SKIPPED = "skipped"
    MENDED = "mended"


KEEPS_BACK = (Quarantined.HELD, Quarantined.WAITING)
"""The states in which a record holds later records of its key."""


def with_any(
    run: RunContext, partitions: Sequence[TopicPartition], state: Quarantined
) -> list[TopicPartition]:
    """Return the partitions with a record in a state."""
    rows_by_partition = run.control.execute_many(
        f"SELECT id FROM {table(run.settings.keyspace, TABLE)} WHERE journal_keyspace = ?"
        " AND topic = ? AND partition = ? AND state = ? LIMIT 1",
        [
            (run.settings.kafka_journal_keyspace, partition.topic, partition.partition, state)
            for partition in partitions
        ],
    )
    return [
        partition for partition, rows in zip(partitions, rows_by_partition, strict=True) if rows
    ]


def keeping_back(
    run: RunContext, partitions: Sequence[TopicPartition]
) -> Mapping[Quarantined, Sequence[TopicPartition]]:
    """Return the partitions with records that hold later ones, by the state of the records."""
    by_state = {state: with_any(run, partitions, state) for state in KEEPS_BACK}
    return {state: with_records for state, with_records in by_state.items() if with_records}
