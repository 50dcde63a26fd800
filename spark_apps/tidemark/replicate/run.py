"""replicate: from the pointers to the offsets at which the topics ended at the run's start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce

from tidemark import clock
from tidemark.application import preflight
from tidemark.application.guarded_change import EnsureLocked
from tidemark.cassandra.schema import create_own_tables
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import TidemarkError, together
from tidemark.installation import program
from tidemark.journals.kafka import tables
from tidemark.journals.kafka.schema import prepare
from tidemark.ledger.applications import REPLICATE
from tidemark.ledger.locks import Locks
from tidemark.replicate import quarantine
from tidemark.replicate.batch import BatchTask, Replicated, replicate
from tidemark.replicate.held.release import release_waiting
from tidemark.replicate.kafka.topics import TopicPartition, Topics
from tidemark.replicate.plan import (
    PartitionPosition,
    Reached,
    alike,
    batch_now,
    cut,
    older_than,
    reached,
)
from tidemark.replicate.progress import replicated_to
from tidemark.replicate.progress.kept_back import KeptBack
from tidemark.replicate.progress.pointers import raise_to_kept_back
from tidemark.replicate.progress.replicated_to import UpTo
from tidemark.replicate.ranges import Ranges
from tidemark.text import counted
from tidemark.window import EPOCH, Window, iso

_NAMED = 20


@dataclass
class _Progress:
    """The results of a run so far."""

    counts: dict[str, int]
    ranges: int
    problems: list[TidemarkError]
    reached: list[TopicPartition]
    released: int = 0

    def add(self, result: Replicated) -> None:
        for name, number in result.counts.items():
            self.counts[name] = self.counts.get(name, 0) + number
        self.ranges += len(result.ranges)
        self.problems += result.problems


def run_replicate(run: RunContext, topics: Sequence[str] = (), *, dry_run: bool = False) -> Outcome:
    """Replicate the records of topics after the pointers; all topics with the prefix if empty.

    If a topic partition cannot continue, the run fails at its end; the others are replicated.

    Raises:
        InvalidInput: a topic is unknown.
        KafkaUnavailable: Kafka does not answer.
        SchemaMismatch: the tables are of another shape or version.
        LockHeld: another run works on a topic partition.
        LockLost: a lock was lost during the run.
    """
    settings = run.settings
    preflight.require_in_cassandra(
        settings,
        "replicate writes tables of kafka-journal in Cassandra",
        "run it with another journal, whose Cassandra cluster has these tables",
    )
    kafka = Topics(settings)
    # A partition that is added from now on has no earlier record.
    started_at = clock.now()
    partitions = kafka.partitions(topics)
    if not partitions:
        line = f"no topic begins with {settings.kafka_topic_prefix}"
        return Outcome(RunState.NOTHING, lines=[line])
    prepare(run.control, settings, origin=run.owner, dry_run=dry_run)
    if dry_run:
        return _shown(_positions(run, kafka, partitions))
    create_own_tables(run.control, settings)
    resource = tables.lock_of(settings)
    with Locks.of(run, [f"{resource}/{tp}" for tp in partitions]) as locks:
        # First, so that a partition that never completes counts as behind.
        replicated_to.write(run, dict.fromkeys(partitions, UpTo(EPOCH, 0)))
        # Read again, with partitions added since the first request.
        replicated_to.keep_only(run, kafka.partitions(topics))
        positions, begins = _positions(run, kafka, partitions), kafka.begins(partitions)
        if any(position.behind for position in positions):
            run.start_spark()
        locks.check()
        emptied = [p.partition for p in positions if p.reached.was_emptied]
        replicated_to.begin_anew(run, emptied)
        quarantine.forget(run, emptied)
        progress = _replicate(run, kafka, positions, begins, locks.check)
        before = {p.partition: p.held.written for p in positions if not p.is_open}
        done = [tp for tp in progress.reached if tp in before]
        now = kafka.offsets(done)
        ended = {tp: now[tp].written == before[tp] for tp in done}
        progress.released = release_waiting(run, partitions, ended, locks.check)
        locks.check()
        kept_back = raise_to_kept_back(run, partitions)
        oldest = quarantine.oldest_waiting(run, partitions)
        ends = {p.partition: p.held.end for p in positions}
        replicated_to.write(
            run,
            {tp: UpTo(min(started_at, oldest.get(tp, started_at)), ends[tp]) for tp in done},
        )
        outcome = _outcome(progress, positions, kept_back)
        return _with_complete(outcome, replicated_to.complete(run, begins))


def _positions(
    run: RunContext, kafka: Topics, partitions: Sequence[TopicPartition]
) -> list[PartitionPosition]:
    offsets = kafka.offsets(partitions)
    pointers = reached(run.control, run.settings, partitions)
    return [PartitionPosition(tp, pointers[tp], offsets[tp]) for tp in partitions]


def _replicate(
    run: RunContext,
    kafka: Topics,
    positions: Sequence[PartitionPosition],
    begins: Mapping[TopicPartition, datetime],
    ensure_locked: EnsureLocked,
) -> _Progress:
    problems = {p.partition: problem for p in positions if (problem := p.problem())}
    progress = _Progress({}, 0, list(problems.values()), [])
    continuing = [p for p in positions if p.partition not in problems]
    starts = {p.partition: p.next for p in continuing}
    ends = {p.partition: p.held.end for p in continuing}
    pointers = {p.partition: p.reached.pointer for p in continuing}
    last = {p.partition: entry.range for p in positions if (entry := p.reached.newest)}
    locked = [p.partition for p in positions]
    _close(run, [p.reached for p in continuing])

    def run_task(task: BatchTask) -> None:
        result = replicate(run, task, ensure_locked)
        progress.add(result)
        for r in result.ranges:
            starts[r.partition] = r.end
            pointers[r.partition] = r.pointer_after
            last[r.partition] = r
        # A partition that did not reach the end of its span has stopped for this run.
        for tp, (_, end) in task.spans.items():
            if starts[tp] < end:
                del ends[tp]

    for ranges in alike(begun for p in continuing if (begun := p.reached.begun)):
        begun_spans = {r.partition: (r.first, r.end) for r in ranges}
        run.say(f"ending {len(ranges)} ranges of offsets that an earlier run has begun")
        run_task(BatchTask(begun_spans, ranges, ranges[0].batch, pointers, last, locked))
    most = run.settings.replicate_max_records
    is_one_batch = sum(end - starts[tp] for tp, end in ends.items()) <= most
    older = {} if is_one_batch else older_than(kafka, continuing, begins)
    while spans := cut(starts, ends, most, older):
        remaining = sum(end - starts[tp] for tp, end in ends.items())
        run.say(f"{remaining:,} offsets of {len(spans)} topic partitions are left")
        run_task(BatchTask(spans, (), batch_now(run.settings), pointers, last, locked))
    progress.reached = [tp for tp, end in ends.items() if starts[tp] >= end]
    return progress


def _close(run: RunContext, entries: Sequence[Reached]) -> None:
    """Close ranges of which only the record of the end is missing, or that the pointer left."""
    ledger = Ranges(run)
    unrecorded = [entry.unrecorded for entry in entries if entry.unrecorded]
    ledger.finish({r: {} for r in ledger.start(unrecorded)})
    ledger.supersede(entry.superseded for entry in entries if entry.superseded)


def _outcome(
    progress: _Progress,
    positions: Sequence[PartitionPosition],
    kept_back: Mapping[TopicPartition, KeptBack],
) -> Outcome:
    done = progress.ranges
    problems = progress.problems
    lines = [str(problem) for problem in problems]
    error = None
    if problems:
        first = problems[0]
        error = (
            first
            if len(problems) == 1
            else together(
                f"{len(problems)} topic partitions cannot go on, such as {first}",
                [problem.exit_status for problem in problems],
            )
        )
    has_work = done or progress.released
    state = RunState.FAILED if problems else RunState.DONE if has_work else RunState.NOTHING
    if not lines and not has_work:
        lines = [f"all {len(positions)} topic partitions are replicated to their ends"]
    if progress.released:
        progress.counts["records_released"] = progress.released
    open_positions = [p for p in positions if p.is_open]
    if open_positions:
        lines.append(_open_line(open_positions))
    if kept_back:
        total = reduce(KeptBack.plus, kept_back.values())
        progress.counts |= {"records_held": total.held, "records_waiting": total.waiting}
        lines.append(_kept_back_line(total))
    failed = len(problems)
    return Outcome(
        state, PieceCounts(done + failed, done, 0, failed), progress.counts, lines, error
    )


def _with_complete(outcome: Outcome, complete: Mapping[str, Window]) -> Outcome:
    """Return an outcome with the time buckets of its topics that are complete."""
    if not complete:
        return outcome
    topics = {
        topic: {"done_start": iso(span.start), "done_end": iso(span.end)}
        for topic, span in complete.items()
    }
    spans = complete.values()
    hull = Window(min(span.start for span in spans), max(span.end for span in spans))
    return replace(outcome, details={"topics": topics}, done=hull)


def _open_line(positions: Sequence[PartitionPosition]) -> str:
    first = positions[0]
    return (
        f"{counted(len(positions), 'topic partition')} with an open transaction, whose end is"
        f" waited for, such as {first.partition} from offset {first.held.end} on"
    )


def _kept_back_line(total: KeptBack) -> str:
    keys = f"{counted(total.keys, 'key')} with {counted(total.held + total.waiting, 'record')}"
    waiting = (
        f", of which {total.waiting:,} wait since their keys have moved" if total.waiting else ""
    )
    remedy = f"see `{program(REPLICATE)} replay`" if total.held else "later runs replicate them"
    return f"{keys} held in quarantine since {iso(total.since)}{waiting}; {remedy}"


def _shown(positions: Sequence[PartitionPosition]) -> Outcome:
    behind = [p for p in positions if p.behind or p.problem()]
    lines = [
        str(p.problem() or f"{p.partition}: {p.behind:,} offsets from {p.next} on") for p in behind
    ]
    if len(lines) > _NAMED:
        lines = [*lines[:_NAMED], f"and {len(lines) - _NAMED} more"]
    counts = {"offsets_behind": sum(p.behind for p in behind)}
    return Outcome(RunState.PLANNED, PieceCounts(len(behind)), counts, lines)
