"""The run of replicate: from the pointers to the offsets at which the topics ended at its start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce

from tidemark import clock
from tidemark.application.guarded_change import EnsureLocked
from tidemark.cassandra.schema import create_own_tables
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import TidemarkError, together
from tidemark.kafka_journal import tables
from tidemark.kafka_journal.schema import prepare
from tidemark.ledger.applications import REPLICATE as APPLICATION
from tidemark.ledger.locks import Locks
from tidemark.replication import quarantine
from tidemark.replication.batch import Order, Replicated, replicate
from tidemark.replication.held.release import release_waiting
from tidemark.replication.kafka.topics import TopicPartition, Topics
from tidemark.replication.plan import Position, Reached, alike, batch_now, cut, older_than, reached
from tidemark.replication.progress import replicated_to
from tidemark.replication.progress.kept_back import KeptBack
from tidemark.replication.progress.pointers import raise_to_kept_back
from tidemark.replication.progress.replicated_to import UpTo
from tidemark.replication.ranges import Ranges
from tidemark.text import counted
from tidemark.window import EPOCH, Window, iso

__all__ = ["APPLICATION", "run_replicate"]

_NAMED = 20


@dataclass
class _Progress:
    """What a run has done so far."""

    counts: dict[str, int]
    ranges: int
    problems: list[TidemarkError]
    reached: list[TopicPartition]
    released: int = 0

    def add(self, done: Replicated) -> None:
        for name, number in done.counts.items():
            self.counts[name] = self.counts.get(name, 0) + number
        self.ranges += len(done.ranges)
        self.problems += done.problems


def run_replicate(run: RunContext, topics: Sequence[str] = (), *, dry_run: bool = False) -> Outcome:
    """Replicate what the topics hold behind the pointers.

    A topic partition that cannot go on fails the run at its end; the others are replicated.

    Args:
        run: the context of the run.
        topics: only these topics; all with the prefix of the settings if none is named.
        dry_run: only show what is to be replicated.

    Raises:
        InvalidInput: a topic is unknown.
        KafkaUnavailable: Kafka does not answer.
        SchemaMismatch: the tables are of another shape or version.
        LockHeld: another run works on a topic partition.
        LockLost: a lock was lost on the way.
    """
    settings, kafka = run.settings, Topics(run.settings)
    # A partition that somebody adds from now on has no record of before.
    asked_at = clock.now()
    partitions = kafka.partitions(topics)
    if not partitions:
        line = f"no topic begins with {settings.kafka_topic_prefix}"
        return Outcome(RunState.NOTHING, lines=[line])
    prepare(run.control, settings, origin=run.owner, dry_run=dry_run)
    if dry_run:
        return _shown(_positions(run, kafka, partitions))
    create_own_tables(run.control, settings)
    resource = tables.lock_of(settings)
    with Locks.of(run, [f"{resource}/{one}" for one in partitions]) as locks:
        # Written first, so that a partition that never completes shows up as behind.
        replicated_to.write(run, dict.fromkeys(partitions, UpTo(EPOCH, 0)))
        # Those that were added since the first request are there as well.
        replicated_to.keep_only(run, kafka.partitions(topics))
        positions, begins = _positions(run, kafka, partitions), kafka.begins(partitions)
        if any(position.behind for position in positions):
            run.start_spark()
        locks.check()
        emptied = [one.partition for one in positions if one.reached.was_emptied]
        replicated_to.begin_anew(run, emptied)
        quarantine.forget(run, emptied)
        progress = _replicate(run, kafka, positions, begins, locks.check)
        before = {one.partition: one.held.written for one in positions if not one.is_open}
        whole = [one for one in progress.reached if one in before]
        now = kafka.offsets(whole)
        ended = {one: now[one].written == before[one] for one in whole}
        progress.released = release_waiting(run, partitions, ended, locks.check)
        locks.check()
        kept_back = raise_to_kept_back(run, partitions)
        oldest = quarantine.oldest_waiting(run, partitions)
        ends = {one.partition: one.held.end for one in positions}
        replicated_to.write(
            run, {one: UpTo(min(asked_at, oldest.get(one, asked_at)), ends[one]) for one in whole}
        )
        outcome = _outcome(progress, positions, kept_back)
        return _with_complete(outcome, replicated_to.complete(run, begins))


def _positions(
    run: RunContext, kafka: Topics, partitions: Sequence[TopicPartition]
) -> list[Position]:
    offsets = kafka.offsets(partitions)
    known = reached(run.control, run.settings, partitions)
    return [Position(one, known[one], offsets[one]) for one in partitions]


def _replicate(
    run: RunContext,
    kafka: Topics,
    positions: Sequence[Position],
    begins: Mapping[TopicPartition, datetime],
    ensure_locked: EnsureLocked,
) -> _Progress:
    problems = {one.partition: problem for one in positions if (problem := one.problem())}
    progress = _Progress({}, 0, list(problems.values()), [])
    able = [one for one in positions if one.partition not in problems]
    starts = {one.partition: one.next for one in able}
    ends = {one.partition: one.held.end for one in able}
    known = {one.partition: one.reached.pointer for one in able}
    last = {one.partition: entry.range for one in positions if (entry := one.reached.newest)}
    locked = [one.partition for one in positions]
    _close(run, [one.reached for one in able])

    def replicate_these(order: Order) -> None:
        done = replicate(run, order, ensure_locked)
        progress.add(done)
        for ended in done.ranges:
            starts[ended.partition] = ended.end
            known[ended.partition] = ended.pointer_after
            last[ended.partition] = ended
        # A partition that has not moved as far as it should has stopped for good.
        for one, (_, end) in order.spans.items():
            if starts[one] < end:
                del ends[one]

    for ranges in alike(begun for one in able if (begun := one.reached.begun)):
        begun_spans = {one.partition: (one.first, one.end) for one in ranges}
        run.say(f"ending {len(ranges)} ranges of offsets that an earlier run has begun")
        replicate_these(Order(begun_spans, ranges, ranges[0].batch, known, last, locked))
    most = run.settings.replicate_max_records
    is_one_batch = sum(end - starts[one] for one, end in ends.items()) <= most
    older = {} if is_one_batch else older_than(kafka, able, begins)
    while spans := cut(starts, ends, most, older):
        left = sum(end - starts[one] for one, end in ends.items())
        run.say(f"{left:,} offsets of {len(spans)} topic partitions are left")
        replicate_these(Order(spans, (), batch_now(run.settings), known, last, locked))
    progress.reached = [one for one, end in ends.items() if starts[one] >= end]
    return progress


def _close(run: RunContext, known: Sequence[Reached]) -> None:
    """Record the end of ranges that only lack the record of it, or that the pointer has left."""
    ledger = Ranges(run)
    unrecorded = [entry.unrecorded for entry in known if entry.unrecorded]
    ledger.finish({one: {} for one in ledger.start(unrecorded)})
    ledger.supersede(entry.superseded for entry in known if entry.superseded)


def _outcome(
    progress: _Progress,
    positions: Sequence[Position],
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
                [one.exit_status for one in problems],
            )
        )
    has_done = done or progress.released
    state = RunState.FAILED if problems else RunState.DONE if has_done else RunState.NOTHING
    if not lines and not has_done:
        lines = [f"all {len(positions)} topic partitions are replicated to their ends"]
    if progress.released:
        progress.counts["records_released"] = progress.released
    open_ones = [one for one in positions if one.is_open]
    if open_ones:
        lines.append(_open_line(open_ones))
    if kept_back:
        every = reduce(KeptBack.plus, kept_back.values())
        progress.counts |= {"records_held": every.held, "records_waiting": every.waiting}
        lines.append(_kept_back_line(every))
    failed = len(problems)
    return Outcome(
        state, PieceCounts(done + failed, done, 0, failed), progress.counts, lines, error
    )


def _with_complete(outcome: Outcome, complete: Mapping[str, Window]) -> Outcome:
    """Return an outcome that says which time buckets of its topics those downstream may read."""
    if not complete:
        return outcome
    topics = {
        topic: {"done_start": iso(span.start), "done_end": iso(span.end)}
        for topic, span in complete.items()
    }
    spans = complete.values()
    hull = Window(min(span.start for span in spans), max(span.end for span in spans))
    return replace(outcome, details={"topics": topics}, done=hull)


def _open_line(open_ones: Sequence[Position]) -> str:
    first = open_ones[0]
    return (
        f"{counted(len(open_ones), 'topic partition')} with an open transaction, whose end is"
        f" waited for, such as {first.partition} from offset {first.held.end} on"
    )


def _kept_back_line(every: KeptBack) -> str:
    of_keys = f"{counted(every.keys, 'key')} with {counted(every.held + every.waiting, 'record')}"
    waiting = (
        f", of which {every.waiting:,} wait since their keys have moved" if every.waiting else ""
    )
    remedy = "see `spark_apps/replicate.py replay`" if every.held else "later runs replicate them"
    return f"{of_keys} held in quarantine since {iso(every.since)}{waiting}; {remedy}"


def _shown(positions: Sequence[Position]) -> Outcome:
    behind = [one for one in positions if one.behind or one.problem()]
    lines = [
        str(one.problem() or f"{one.partition}: {one.behind:,} offsets from {one.next} on")
        for one in behind
    ]
    if len(lines) > _NAMED:
        lines = [*lines[:_NAMED], f"and {len(lines) - _NAMED} more"]
    counts = {"offsets_behind": sum(one.behind for one in behind)}
    return Outcome(RunState.PLANNED, PieceCounts(len(behind)), counts, lines)
