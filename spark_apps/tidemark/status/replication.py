"""Replication of kafka-journal by topic partition, and the held keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tidemark import clock
from tidemark.context import RunContext
from tidemark.replicate.kafka.topics import TopicPartition, Topics
from tidemark.replicate.plan import PartitionPosition, reached
from tidemark.replicate.progress import partition_pages
from tidemark.replicate.progress.kept_back import kept_back
from tidemark.replicate.progress.partition_pages import HeldKey
from tidemark.replicate.quarantined import Quarantined
from tidemark.status.page import ZERO, Amount, Page, token, unknown, values_of

PARTITIONS, HELD_KEYS = "topic-partitions", "held-keys"
MOST_KEYS = 1000
"""The most held keys that are counted for a topic partition and state."""
NOT_ASKED = "only Kafka knows where the topic ends: ask it with --kafka"


@dataclass(frozen=True)
class PartitionState:
    """A topic partition.

    Attributes:
        topic: the topic.
        partition: number of the partition.
        replicated_to: all records before this time are replicated, except those of held keys.
        lag_seconds: seconds since `replicated_to`.
        next_offset: the offset at which the next run continues; None if it starts over.
        pointer: the offset up to which readers read events from Cassandra; None without a pointer.
        lag_events: number of offsets to the end of the topic.
        held_keys: keys with records in quarantine, which hold later records of the key.
        held_records: records that wait until somebody acts.
        held_since: when the oldest of the counted keys was held.
        problem: why replication of the partition cannot continue.
    """

    topic: str
    partition: int
    replicated_to: datetime
    lag_seconds: int
    next_offset: int | None
    pointer: int | None
    lag_events: Amount
    held_keys: Amount = ZERO
    held_records: Amount = ZERO
    held_since: datetime | None = None
    problem: str = ""


def partitions(
    run: RunContext, *, limit: int, after: str | None = None, asks_kafka: bool = False
) -> Page[PartitionState]:
    """Return the replicated topic partitions, by topic and number.

    With `asks_kafka`, the ends of the topics are read from Kafka.

    Raises:
        InvalidInput: `after` is not a token of these pages.
        KafkaUnavailable: Kafka does not answer.
    """
    begin = values_of(PARTITIONS, after, str, int)
    replicated = partition_pages.page(
        run,
        partition_pages.topics(run),
        limit=limit,
        after=None if begin is None else TopicPartition(*begin),
    )
    if not replicated:
        return Page([])
    entries = reached(run.control, run.settings, list(replicated))
    kept_by_partition = kept_back(run, list(replicated), MOST_KEYS)
    positions = _positions(run, list(replicated)) if asks_kafka else {}
    now = clock.now()
    items = []
    for partition, up_to in replicated.items():
        position = positions.get(partition)
        kept = kept_by_partition.get(partition)
        is_bound = kept is not None and kept.keys >= MOST_KEYS
        entry = entries[partition]
        items.append(
            PartitionState(
                partition.topic,
                partition.partition,
                up_to.at,
                max(int((now - up_to.at).total_seconds()), 0),
                entry.next,
                None if entry.pointer < 0 else entry.pointer,
                unknown(NOT_ASKED) if position is None else Amount(position.behind),
                Amount(kept.keys if kept else 0, is_bound),
                Amount(kept.held if kept else 0, is_bound),
                kept.since if kept else None,
                str(position.problem() or "") if position else "",
            )
        )
    last = items[-1]
    is_full = len(items) == limit
    return Page(items, token(PARTITIONS, last.topic, last.partition) if is_full else None)


def _positions(
    run: RunContext, partitions: list[TopicPartition]
) -> Mapping[TopicPartition, PartitionPosition]:
    """Return the positions that a dry run of replicate finds, of partitions that exist in Kafka."""
    kafka = Topics(run.settings)
    existing = set(kafka.partitions())
    wanted = [partition for partition in partitions if partition in existing]
    entries = reached(run.control, run.settings, wanted)
    return {
        partition: PartitionPosition(partition, entries[partition], offsets)
        for partition, offsets in kafka.offsets(wanted).items()
    }


def held_keys(run: RunContext, *, limit: int, after: str | None = None) -> Page[HeldKey]:
    """Return the keys with records held or waiting, by topic partition, state and key.

    Raises:
        InvalidInput: `after` is not a token of these pages.
    """
    begin = values_of(HELD_KEYS, after, str, int, int, str)
    names = partition_pages.topics(run)
    items: list[HeldKey] = []
    current = None if begin is None else TopicPartition(begin[0], begin[1])
    first_state, key = (0, "") if begin is None else (begin[2], begin[3])
    if current is not None:
        items += _of_partition(run, current, first_state, key, limit)
    while len(items) < limit:
        replicated = partition_pages.page(run, names, limit=limit, after=current)
        if not replicated:
            return Page(items)
        for current in replicated:
            items += _of_partition(run, current, 0, "", limit - len(items))
            if len(items) == limit:
                break
    last = items[-1]
    state = partition_pages.STATES.index(last.state)
    partition = last.partition
    return Page(items, token(HELD_KEYS, partition.topic, partition.partition, state, last.key))


def _of_partition(
    run: RunContext, partition: TopicPartition, first_state: int, key: str, limit: int
) -> list[HeldKey]:
    items: list[HeldKey] = []
    for number, state in enumerate(partition_pages.STATES):
        if number >= first_state and len(items) < limit:
            items += partition_pages.held_keys(
                *(run, partition, Quarantined(state)),
                limit=limit - len(items),
                after=key if number == first_state else "",
            )
    return items
