"""Replication of kafka-journal by topic partition, and the keys that are held."""

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
from tidemark.status.page import ZERO, Amount, Page, place, token, unknown

PARTITIONS, HELD_KEYS = "topic-partitions", "held-keys"
MOST_KEYS = 1000
"""The most held keys that are counted of a topic partition and state."""
NOT_ASKED = "only Kafka knows where the topic ends: ask it with --kafka"


@dataclass(frozen=True)
class PartitionState:
    """A topic partition.

    Attributes:
        topic: the topic.
        partition: its number.
        replicated_to: all records before this time are replicated, but for those of held keys.
        lag_seconds: since then.
        next_offset: the offset at which the next run goes on; None if it begins anew.
        pointer: the offset up to which readers take events from Cassandra; None without one.
        lag_events: offsets behind the end of the topic.
        held_keys: keys of which records are in quarantine and keep back later ones.
        held_records: records that wait for somebody.
        held_since: since when, of the keys that were counted.
        problem: why it cannot go on.
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
    """Return the topic partitions of which something was replicated, by topic and number.

    Args:
        run: the context of the run.
        limit: the most rows.
        after: the token of the page before.
        asks_kafka: whether Kafka is asked where the topics end.

    Raises:
        InvalidInput: `after` is no token of these pages.
        KafkaUnavailable: Kafka does not answer.
    """
    begin = place(PARTITIONS, after, str, int)
    found = partition_pages.page(
        run,
        partition_pages.topics(run),
        limit=limit,
        after=None if begin is None else TopicPartition(*begin),
    )
    if not found:
        return Page([])
    known = reached(run.control, run.settings, list(found))
    kept = kept_back(run, list(found), MOST_KEYS)
    behind = _behind(run, list(found)) if asks_kafka else {}
    now = clock.now()
    items = []
    for one, up_to in found.items():
        position = behind.get(one)
        held = kept.get(one)
        is_bound = held is not None and held.keys >= MOST_KEYS
        entry = known[one]
        items.append(
            PartitionState(
                one.topic,
                one.partition,
                up_to.at,
                max(int((now - up_to.at).total_seconds()), 0),
                entry.next,
                None if entry.pointer < 0 else entry.pointer,
                unknown(NOT_ASKED) if position is None else Amount(position.behind),
                Amount(held.keys if held else 0, is_bound),
                Amount(held.held if held else 0, is_bound),
                held.since if held else None,
                str(position.problem() or "") if position else "",
            )
        )
    last = items[-1]
    is_full = len(items) == limit
    return Page(items, token(PARTITIONS, last.topic, last.partition) if is_full else None)


def _behind(
    run: RunContext, partitions: list[TopicPartition]
) -> Mapping[TopicPartition, PartitionPosition]:
    """Return what a dry run of replicate would find, of partitions that Kafka has."""
    kafka = Topics(run.settings)
    there = set(kafka.partitions())
    wanted = [one for one in partitions if one in there]
    known = reached(run.control, run.settings, wanted)
    return {
        one: PartitionPosition(one, known[one], offsets)
        for one, offsets in kafka.offsets(wanted).items()
    }


def held_keys(run: RunContext, *, limit: int, after: str | None = None) -> Page[HeldKey]:
    """Return the keys of which records are held or wait, by topic partition, state and key.

    Raises:
        InvalidInput: `after` is no token of these pages.
    """
    begin = place(HELD_KEYS, after, str, int, int, str)
    names = partition_pages.topics(run)
    items: list[HeldKey] = []
    at = None if begin is None else TopicPartition(begin[0], begin[1])
    first_state, key = (0, "") if begin is None else (begin[2], begin[3])
    if at is not None:
        items += _of_partition(run, at, first_state, key, limit)
    while len(items) < limit:
        found = partition_pages.page(run, names, limit=limit, after=at)
        if not found:
            return Page(items)
        for at in found:
            items += _of_partition(run, at, 0, "", limit - len(items))
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
