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
from tidemark.journals.kafka.tables import JOURNAL_KEY
from tidemark.journals.kafka.wire.action import ActionType
from tidemark.journals.kafka.wire.decode import decoded
from tidemark.replicate import quarantine
from tidemark.replicate.apply import WriteTimes, apply
from tidemark.replicate.fold import ActionBatch
from tidemark.replicate.held import sorting
from tidemark.replicate.held.sorting import SortedOut
from tidemark.replicate.kafka.failures import kafka_in_one_line
from tidemark.replicate.kafka.records import Spans, records, tasks_of
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.replicate.plan import write_time_base
from tidemark.replicate.progress.pointers import after
from tidemark.replicate.ranges import NO_POINTER, Range, Ranges
from tidemark.replicate.tables import pointers
from tidemark.replicate.tables.deletions import Notes, Purpose
from tidemark.replicate.tables.pointers import Pointers
from tidemark.spark.local_rows import local_rows
from tidemark.spark.python_workers import prepare_python_workers
from tidemark.spark.read_once import kept

Counts = Mapping[str, int]


@dataclass(frozen=True)
class BatchTask:
    """What a batch is to do.

    Attributes:
        spans: the offsets, of partitions that are locked.
        pinned: the ranges of these spans, if a run has begun them.
        batch: how their actions are folded.
        known: the pointer of each partition before; NO_POINTER where there is none.
        last: the last range of each partition that had one.
        locked: all partitions of the topics.
    """

    spans: Spans
    pinned: Sequence[Range]
    batch: ActionBatch
    known: Pointers
    last: Mapping[TopicPartition, Range]
    locked: Sequence[TopicPartition]


@dataclass(frozen=True)
class Replicated:
    """What a batch has done.

    Attributes:
        ranges: the ranges that are replicated.
        counts: numbers of records and events, by name.
        problems: why partitions stop: at a record, if that is the policy, or since another
            replicator has moved their pointers.
    """

    ranges: Sequence[Range]
    counts: Counts
    problems: Sequence[TidemarkError]


def replicate(run: RunContext, order: BatchTask, ensure_locked: EnsureLocked) -> Replicated:
    """Replicate spans of offsets.

    Raises:
        LockLost: another run may work on a partition.
        TopicMoved: Kafka has dropped the records meanwhile.
    """
    prepare_python_workers(run.spark)
    tasks = tasks_of(run.spark, order.spans)
    raw = records(run.spark, run.settings, order.spans)
    raw = quarantine.corrected(run, raw, list(order.spans))
    by_journal = kept(decoded(raw), tuple(JOURNAL_KEY), tasks)
    with kafka_in_one_line(run.settings, order.spans), by_journal as found:
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
        done = _write(run, order, raw, found, told, ensure_locked)
        return replace(done, problems=[*poison, *done.problems])


def _write(
    run: RunContext,
    order: BatchTask,
    raw: DataFrame,
    found: DataFrame,
    told: Sequence[Row],
    ensure_locked: EnsureLocked,
) -> Replicated:
    partitions = list(order.spans)
    ranges: list[Range] = []

    def apply_these(them: SortedOut) -> bool:
        def begin(newest: WriteTimes) -> WriteTimes:
            pinned = order.pinned or _pinned(order, newest)
            lowest = sorting.lowest_kept_back(them)
            ranges.extend(Ranges(run).start(_with_pointers(order, pinned, lowest)))
            if them.quarantined is not None:
                ensure_locked()
                quarantine.write(raw, them.quarantined, run.settings, run.run_id)
            return {one.partition: one.write_time_base for one in ranges}

        notes = Notes(run, partitions, Purpose.RANGE)
        return apply(
            run, them.good, order.batch, notes, begin, ensure_locked, appends_only=appends_only
        )

    appends_only = not any(one["deletes"] or one["purges"] for one in told)
    has_poison = any(one["poison"] is not None for one in told)
    them = sorting.sorted_out(run, raw, found, order.locked, has_poison=has_poison)
    if sorting.returns(them) or not apply_these(them):
        them = sorting.without_waiting(run, found, order.locked)
        if not apply_these(them):
            raise RuntimeError("keys that wait were to be replicated")
    ensure_locked()
    ours, problems = _move_pointers(run, ranges)
    Ranges(run).finish({one: _counts_of(one.partition, told) for one in ours})
    return Replicated(ours, _together(told), problems)


def _with_pointers(
    order: BatchTask, ranges: Sequence[Range], lowest: Mapping[TopicPartition, int]
) -> list[Range]:
    """Return ranges with the pointers before and after them; `lowest` is what is kept back."""
    return [
        replace(
            one,
            pointer_before=order.known[one.partition],
            pointer_after=after(order.known[one.partition], one.end, lowest.get(one.partition)),
        )
        for one in ranges
    ]


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


def _pinned(order: BatchTask, newest: WriteTimes) -> list[Range]:
    """Return the ranges of a batch, each with write times behind all that is written.

    A key may have been written from another partition of its topic.
    """
    ranges = []
    for one, (first, end) in order.spans.items():
        last = order.last.get(one)
        number = 1 if last is None else last.number + 1
        of_topic = [found for place, found in order.last.items() if place.topic == one.topic]
        of_heads = [time for place, time in newest.items() if place.topic == one.topic]
        written = [*(found.last_write_time for found in of_topic), *of_heads]
        base = write_time_base(first, *written)
        known = order.known[one]
        ranges.append(Range(one, number, first, end, order.batch, base, known, known))
    return ranges


def _move_pointers(
    run: RunContext, ranges: Sequence[Range]
) -> tuple[list[Range], list[TopicMoved]]:
    """Move the pointers of ranges; return those of ours, and why others are somebody else's."""
    settings = run.settings
    now = pointers.read(run.control, settings, [one.partition for one in ranges])
    ours, problems = [], []
    for one in ranges:
        pointer = now.get(one.partition, NO_POINTER)
        if pointer == one.pointer_before:
            ours.append(one)
            continue
        problems.append(
            TopicMoved(
                f"its pointer has moved from {_text(one.pointer_before)} to {_text(pointer)}"
                " meanwhile: another replicator writes the same keyspace",
                where=str(one.partition),
                do="let only one of them write it, then run again",
            )
        )
    ends = {one.partition: one.pointer_after for one in ours if one.pointer_after != NO_POINTER}
    at = ranges[0].batch.at
    pointers.write(run.control, settings, ends, at, now)
    return ours, problems


def _text(pointer: int) -> str:
    return "none" if pointer == NO_POINTER else str(pointer)


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
