"""One batch: spans of offsets of some topic partitions, from Kafka into the tables.

Their ranges are pinned first, and their pointers are written last. Whatever ends a batch early, the
next run does its ranges again, with the same values and write times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.errors import TidemarkError, TopicMoved, UnreadableRecord
from tidemark.kafka_journal.wire.action import ActionType
from tidemark.kafka_journal.wire.decode import decoded
from tidemark.replication import quarantine
from tidemark.replication.apply import WriteTimes, apply, kept
from tidemark.replication.fold import Batch
from tidemark.replication.kafka.failures import kafka_in_one_line
from tidemark.replication.kafka.records import Spans, records
from tidemark.replication.kafka.topics import TopicPartition
from tidemark.replication.plan import write_time_base
from tidemark.replication.quarantine import Quarantined
from tidemark.replication.ranges import Range, Ranges
from tidemark.replication.tables import pointers
from tidemark.replication.tables.deletions import Notes, Purpose
from tidemark.replication.tables.pointers import Pointers
from tidemark.spark.local_rows import local_rows
from tidemark.spark.python_workers import prepare_python_workers

Counts = Mapping[str, int]


@dataclass(frozen=True)
class Order:
    """What a batch is to do.

    Attributes:
        spans: the offsets, of partitions that are locked.
        pinned: the ranges of these spans, if a run has begun them.
        batch: how their actions are folded.
        known: the pointers before.
        last: the last range of each partition that had one.
    """

    spans: Spans
    pinned: Sequence[Range]
    batch: Batch
    known: Pointers
    last: Mapping[TopicPartition, Range]


@dataclass(frozen=True)
class Replicated:
    """What a batch has done.

    Attributes:
        ranges: the ranges that are replicated.
        counts: numbers of records and events, by name.
        poison: why partitions stop at a record, if that is the policy.
    """

    ranges: Sequence[Range]
    counts: Counts
    poison: Sequence[TidemarkError]


def replicate(run: RunContext, order: Order, ensure_locked: EnsureLocked) -> Replicated:
    """Replicate spans of offsets.

    Raises:
        LockLost: another run may work on a partition.
        TopicMoved: Kafka does not hold the records, a key has changed its partition, or another
            replicator writes the same keyspace.
    """
    prepare_python_workers(run.spark)
    raw = records(run.spark, run.settings, order.spans)
    raw = quarantine.with_mended(run, raw, list(order.spans))
    with kafka_in_one_line(run.settings, order.spans), kept(decoded(raw)) as found:
        told = _summary(found)
        poison = []
        if run.settings.kafka_journal_poison == "stop" and not order.pinned:
            poison = [_poison(run, one) for one in told if one["poison"] is not None]
            stops = {TopicPartition(one["topic"], one["partition"]): one["poison"] for one in told}
            order = replace(order, spans=_cut_at(order.spans, stops))
            if not order.spans:
                return Replicated([], {}, poison)
            found = _within(found, order.spans)
            told = _summary(found)
        return replace(_write(run, order, raw, found, told, ensure_locked), poison=poison)


def _write(
    run: RunContext,
    order: Order,
    raw: DataFrame,
    found: DataFrame,
    told: Sequence[Row],
    ensure_locked: EnsureLocked,
) -> Replicated:
    partitions = list(order.spans)
    ledger = Ranges(run)
    ranges: list[Range] = []
    good, held, skipped = _sorted_out(run, found, told, partitions)

    def begin(newest: WriteTimes) -> WriteTimes:
        ranges.extend(ledger.start(order.pinned or _pinned(order, newest)))
        for records_there, state in ((held, Quarantined.HELD), (skipped, Quarantined.SKIPPED)):
            if records_there is not None:
                ensure_locked()
                quarantine.write(raw, records_there, run.settings, state, run.run_id)
        return {one.partition: one.write_time_base for one in ranges}

    notes = Notes(run, partitions, Purpose.RANGE)
    apply(run, good, order.batch, notes, begin, ensure_locked)
    ensure_locked()
    _move_pointers(run, order, ranges)
    for one in ranges:
        ledger.finish(one, _counts_of(one.partition, told))
    return Replicated(ranges, _together(told), [])


def _sorted_out(
    run: RunContext, found: DataFrame, told: Sequence[Row], partitions: Sequence[TopicPartition]
) -> tuple[DataFrame, DataFrame | None, DataFrame | None]:
    """Return the records to replicate, those that are held and those that are skipped."""
    has_poison = any(one["poison"] is not None for one in told)
    holding = quarantine.holding(run, partitions)
    if not has_poison and not holding:
        return found, None, None
    known = quarantine.held_keys(run, holding) if holding else None
    skipped = None
    if run.settings.kafka_journal_poison == "skip":
        skipped = found.where(F.col("cause").isNotNull())
        found = found.where(F.col("cause").isNull())
    held = quarantine.held_from(found, known)
    return quarantine.passed(found, held), quarantine.stopped(found, held), skipped


def _summary(found: DataFrame) -> list[Row]:
    """Return what each topic partition holds; there are as many rows as partitions."""

    def number(action: ActionType) -> Column:
        return F.count_if(F.col("action") == action.value).alias(f"{action.value}s")

    is_poison = F.col("cause").isNotNull()
    first = F.min_by(F.struct("offset", "id", "cause"), F.when(is_poison, F.col("offset")))
    return (
        found.groupBy("topic", "partition")
        .agg(
            F.count(F.lit(1)).alias("records"),
            *(number(action) for action in ActionType),
            F.coalesce(F.sum(_events()), F.lit(0)).alias("events"),
            F.count_if(is_poison).alias("unreadable"),
            F.when(F.count_if(is_poison) > 0, first).alias("poison"),
        )
        .collect()
    )


def _events() -> Column:
    return F.when(F.col("events").isNotNull(), F.size("events")).cast("bigint")


_COUNTED = ("records", "appends", "marks", "deletes", "purges", "events", "unreadable")


def _counts_of(partition: TopicPartition, told: Sequence[Row]) -> Counts:
    return _together(one for one in told if (one["topic"], one["partition"]) == _place(partition))


def _together(told: Iterable[Row]) -> Counts:
    listed = list(told)
    return {name: sum(one[name] for one in listed) for name in _COUNTED}


def _place(partition: TopicPartition) -> tuple[str, int]:
    return partition.topic, partition.partition


def _pinned(order: Order, newest: WriteTimes) -> list[Range]:
    """Return the ranges of a batch, each with write times behind all that is written."""
    ranges = []
    for one, (first, end) in order.spans.items():
        last = order.last.get(one)
        number, written = (1, None) if last is None else (last.number + 1, last.last_write_time)
        base = write_time_base(first, written, newest.get(one))
        ranges.append(Range(one, number, first, end, order.batch, base))
    return ranges


def _move_pointers(run: RunContext, order: Order, ranges: Sequence[Range]) -> None:
    settings = run.settings
    partitions = [one.partition for one in ranges]
    now = pointers.read(run.control, settings, partitions)
    ends = {one.partition: one.end - 1 for one in ranges}
    for one in partitions:
        if now.get(one) != order.known.get(one):
            raise TopicMoved(
                f"its pointer has moved from {order.known.get(one)} to {now.get(one)} meanwhile:"
                " another replicator writes the same keyspace",
                where=str(one),
                do="let only one of them write it, then run again",
            )
    pointers.write(run.control, settings, ends, order.batch.at, now)


def _poison(run: RunContext, told: Row) -> TidemarkError:
    poison = told["poison"]
    return UnreadableRecord(
        f"the record at offset {poison['offset']} of key {poison['id']} cannot be read:"
        f" {poison['cause']}",
        where=f"{told['topic']}/{told['partition']}",
        do="the partition stops before it; let TIDEMARK_KAFKA_JOURNAL_POISON hold or skip it",
    )


def _cut_at(spans: Spans, stops: Mapping[TopicPartition, Row | None]) -> Spans:
    ends = {one: stop["offset"] for one, stop in stops.items() if stop is not None}
    kept = {one: (first, ends.get(one, end)) for one, (first, end) in spans.items()}
    return {one: (first, end) for one, (first, end) in kept.items() if end > first}


def _within(found: DataFrame, spans: Spans) -> DataFrame:
    ends = local_rows(
        found.sparkSession,
        [(*_place(one), end) for one, (_, end) in spans.items()],
        "topic string, partition int, end_offset bigint",
    )
    return (
        found.join(F.broadcast(ends), ["topic", "partition"])
        .where(F.col("offset") < F.col("end_offset"))
        .drop("end_offset")
    )
