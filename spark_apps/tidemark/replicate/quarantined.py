"""The states of records in quarantine, and which topic partitions have any; without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.replicate.kafka.topics import TopicPartition

TABLE = "quarantined_record"


class Quarantined(StrEnum):
    """What becomes of a record in quarantine.

    HELD ones wait for `replay`, with all later ones of their key. WAITING ones are of a key whose
    records lie in several partitions, and wait until all of these are read. SKIPPED ones are passed
    over for good. MENDED ones are replicated with the content that `mend` gave them.
    """

    HELD = "held"
    WAITING = "waiting"
    SKIPPED = "skipped"
    MENDED = "mended"


KEEPS_BACK = (Quarantined.HELD, Quarantined.WAITING)
"""The states in which records keep back later ones of their key."""


def with_any(
    run: RunContext, partitions: Sequence[TopicPartition], state: Quarantined
) -> list[TopicPartition]:
    """Return the partitions of which a record is in a state."""
    found = run.control.execute_many(
        f"SELECT id FROM {table(run.settings.keyspace, TABLE)} WHERE journal_keyspace = ?"
        " AND topic = ? AND partition = ? AND state = ? LIMIT 1",
        [
            (run.settings.kafka_journal_keyspace, one.topic, one.partition, state)
            for one in partitions
        ],
    )
    return [one for one, rows in zip(partitions, found, strict=True) if rows]


def keeping_back(
    run: RunContext, partitions: Sequence[TopicPartition]
) -> Mapping[Quarantined, Sequence[TopicPartition]]:
    """Return the partitions with records that keep back others, by the state of these."""
    found = {state: with_any(run, partitions, state) for state in KEEPS_BACK}
    return {state: there for state, there in found.items() if there}
