"""One batch: replicates spans of offsets of some topic partitions from Kafka into the tables.

Their ranges are pinned first, and their pointers are written last. If a batch is interrupted, the
next run repeats its ranges with the same values and write times.
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
from tidemark.replicate.folding import ActionBatch
from tidemark.replicate.held import sorting
from tidemark.replicate.held.sorting import RoutedRecords
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
    """The task of a batch.

    Attributes:
        spans: the offsets, of partitions that are locked.
        pinned: the ranges of these spans, if a run has begun them.
        batch: how their actions are folded.
        known: the pointer of each partition before; NO_POINTER if there is none.
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
    """The result of a batch.

    Attributes:
        ranges: the ranges that are replicated.
        counts: numbers of records and events, by name.
        problems: why partitions stop: at an unreadable record, if that is the policy, or because
            another replicator has moved their pointers.
    """

    ranges: Sequence[Range]
    counts: Counts
    problems: Sequence[TidemarkError]


def replicate(run: RunContext, task: BatchTask, ensure_locked: EnsureLocked) -> Replicated:
    """Replicate spans of offsets."""
    prepare_python_workers(run.spark)
    tasks = tasks_of(run.spark, task.spans)
    raw = records(run.spark, run.settings, task.spans)
    raw = quarantine.corrected(run, raw, list(task.spans))
    by_journal = kept(decoded(raw), tuple(JOURNAL_KEY), tasks)
    with kafka_in_one_line(run.settings, task.spans), by_journal as parsed:
        totals = _summary(parsed)
        poison = []
        if run.settings.kafka_journal_poison == "stop" and not task.pinned:
            poison = [_poison(run, row) for row in totals if row["poison"] is not None]
            stops = {
                TopicPartition(row["topic"], row["partition"]): row["poison"] for row in totals
            }
            task = replace(task, spans=_cut_at(task.spans, stops))
            if not task.spans:
                return Replicated([], {}, poison)
            parsed = _within(parsed, task.spans)
            totals = _summary(parsed)
        result = _write(run, task, raw, parsed, totals, ensure_locked)
        return replace(result, problems=[*poison, *result.problems])


def _write(
    run: RunContext,
    task: BatchTask,
    raw: DataFrame,
    parsed: DataFrame,
    totals: Sequence[Row],
    ensure_locked: EnsureLocked,
) -> Replicated:
    partitions = list(task.spans)
    ranges: list[Range] = []

    def apply_to(routed: RoutedRecords) -> bool:
        def begin(newest: WriteTimes) -> WriteTimes:
            pinned = task.pinned or _pinned(task, newest)
            lowest = sorting.lowest_kept_back(routed)
            ranges.extend(Ranges(run).start(_with_pointers(task, pinned, lowest)))
            if routed.quarantined is not None:
                ensure_locked()
                quarantine.write(raw, routed.quarantined, run.settings, run.run_id)
            return {r.partition: r.write_time_base for r in ranges}

        notes = Notes(run, partitions, Purpose.RANGE)
        return apply(
            run, routed.good, task.batch, notes, begin, ensure_locked, appends_only=appends_only
        )

    appends_only = not any(row["deletes"] or row["purges"] for row in totals)
    has_poison = any(row["poison"] is not None for row in totals)
    routed = sorting.route(run, raw, parsed, task.locked, has_poison=has_poison)
    if sorting.splits_held_keys(routed) or not apply_to(routed):
        routed = sorting.route_with_waiting(run, parsed, task.locked)
        if not apply_to(routed):
            raise RuntimeError("keys that wait were to be replicated")
    ensure_locked()
    ours, problems = _move_pointers(run, ranges)
    Ranges(run).finish({r: _counts_of(r.partition, totals) for r in ours})
    return Replicated(ours, _sums(totals), problems)


def _with_pointers(
    task: BatchTask, ranges: Sequence[Range], lowest: Mapping[TopicPartition, int]
) -> list[Range]:
    """Return ranges with their pointers; `lowest` has the first offsets kept back."""
    return [
        replace(
            r,
            pointer_before=task.known[r.partition],
            pointer_after=after(task.known[r.partition], r.end, lowest.get(r.partition)),
        )
        for r in ranges
    ]


def _summary(parsed: DataFrame) -> list[Row]:
    """Return a summary of the records of each topic partition."""

    def count_of(action: ActionType) -> Column:
        return F.count_if(F.col("action") == action.value).alias(f"{action.value}s")

    is_poison = F.col("cause").isNotNull()
    first = F.min_by(F.struct("offset", "id", "cause"), F.when(is_poison, F.col("offset")))
    return (
        parsed.groupBy("topic", "partition")
        .agg(
            F.count(F.lit(1)).alias("records"),
            *(count_of(action) for action in ActionType),
            F.coalesce(F.sum(_events()), F.lit(0)).alias("events"),
            F.count_if(is_poison).alias("unreadable"),
            F.when(F.count_if(is_poison) > 0, first).alias("poison"),
        )
        .collect()
    )


def _events() -> Column:
    return F.when(F.col("events").isNotNull(), F.size("events")).cast("bigint")


_COUNTED = ("records", "appends", "marks", "deletes", "purges", "events", "unreadable")


def _counts_of(partition: TopicPartition, totals: Sequence[Row]) -> Counts:
    return _sums(row for row in totals if (row["topic"], row["partition"]) == _pair(partition))


def _sums(totals: Iterable[Row]) -> Counts:
    rows = list(totals)
    return {name: sum(row[name] for row in rows) for name in _COUNTED}


def _pair(partition: TopicPartition) -> tuple[str, int]:
    return partition.topic, partition.partition


def _pinned(task: BatchTask, newest: WriteTimes) -> list[Range]:
    """Return the ranges of a batch, with write times later than all earlier ones in their topics.

    All partitions of a topic count, since a key may have been written from another one.
    """
    ranges = []
    for tp, (first, end) in task.spans.items():
        last = task.last.get(tp)
        number = 1 if last is None else last.number + 1
        of_topic = [other for other_tp, other in task.last.items() if other_tp.topic == tp.topic]
        of_heads = [time for other_tp, time in newest.items() if other_tp.topic == tp.topic]
        written = [*(other.last_write_time for other in of_topic), *of_heads]
        base = write_time_base(first, *written)
        pointer = task.known[tp]
        ranges.append(Range(tp, number, first, end, task.batch, base, pointer, pointer))
    return ranges


def _move_pointers(
    run: RunContext, ranges: Sequence[Range]
) -> tuple[list[Range], list[TopicMoved]]:
    """Move the pointers of ranges; return those still ours, and errors for the others."""
    settings = run.settings
    now = pointers.read(run.control, settings, [r.partition for r in ranges])
    ours, problems = [], []
    for r in ranges:
        pointer = now.get(r.partition, NO_POINTER)
        if pointer == r.pointer_before:
            ours.append(r)
            continue
        problems.append(
            TopicMoved(
                f"its pointer has moved from {_shown(r.pointer_before)} to {_shown(pointer)}"
                " meanwhile: another replicator writes the same keyspace",
                where=str(r.partition),
                do="let only one of them write it, then run again",
            )
        )
    ends = {r.partition: r.pointer_after for r in ours if r.pointer_after != NO_POINTER}
    at = ranges[0].batch.at
    pointers.write(run.control, settings, ends, at, now)
    return ours, problems


def _shown(pointer: int) -> str:
    return "none" if pointer == NO_POINTER else str(pointer)


def _poison(run: RunContext, totals: Row) -> TidemarkError:
    record = totals["poison"]
    return UnreadableRecord(
        f"the record at offset {record['offset']} of key {record['id']} cannot be read:"
        f" {record['cause']}",
        where=f"{totals['topic']}/{totals['partition']}",
        do="the partition stops before it; let TIDEMARK_KAFKA_JOURNAL_POISON hold or skip it",
    )


def _cut_at(spans: Spans, stops: Mapping[TopicPartition, Row | None]) -> Spans:
    ends = {tp: stop["offset"] for tp, stop in stops.items() if stop is not None}
    cut = {tp: (first, ends.get(tp, end)) for tp, (first, end) in spans.items()}
    return {tp: (first, end) for tp, (first, end) in cut.items() if end > first}


def _within(parsed: DataFrame, spans: Spans) -> DataFrame:
    ends = local_rows(
        parsed.sparkSession,
        [(*_pair(tp), end) for tp, (_, end) in spans.items()],
        "topic string, partition int, end_offset bigint",
    )
    return (
        parsed.join(F.broadcast(ends), ["topic", "partition"])
        .where(F.col("offset") < F.col("end_offset"))
        .drop("end_offset")
    )
