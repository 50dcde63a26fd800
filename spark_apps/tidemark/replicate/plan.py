"""Where each topic partition continues, and how many offsets a batch takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from tidemark import clock
from tidemark.cassandra.control import Control
from tidemark.errors import TopicMoved
from tidemark.replicate.folding import ActionBatch
from tidemark.replicate.kafka.topics import Offsets, TopicPartition, Topics
from tidemark.replicate.ranges import NO_POINTER, Entry, Range, RangeState, newest
from tidemark.replicate.tables import pointers
from tidemark.settings import Settings

if TYPE_CHECKING:
    from tidemark.replicate.kafka.records import Spans


@dataclass(frozen=True)
class Reached:
    """How far a topic partition is replicated, by its pointer and the ledger.

    kafka-journal's readers use the pointer: everything up to it is in Cassandra. It stays below the
    oldest record in quarantine, so the ledger records how far Tidemark itself has come. The ledger
    counts as long as the pointer is the one that its newest range has left; otherwise the pointer.

    Attributes:
        pointer: NO_POINTER if there is none.
        newest: the newest range in the ledger.
    """

    pointer: int
    newest: Entry | None

    @property
    def begun(self) -> Range | None:
        """Return the range that a dead run has begun, and that must be repeated."""
        last = self._unfinished
        return last if last and self.pointer in (last.pointer_before, last.first - 1) else None

    @property
    def unrecorded(self) -> Range | None:
        """Return the range that is complete except for the record of its end."""
        last = self._unfinished
        return last if last and not self.begun and self.pointer == last.pointer_after else None

    @property
    def superseded(self) -> Range | None:
        """Return the range of a dead run that the pointer has left since."""
        return None if self.begun or self.unrecorded else self._unfinished

    @property
    def next(self) -> int | None:
        """Return the offset at which the partition continues; None if it begins anew."""
        if self.begun:
            return self.begun.first
        if self.unrecorded:
            return self.unrecorded.end
        if self.pointer == NO_POINTER:
            # The topic's first record is kept back, or the keyspace was emptied.
            return None
        return self.own.end if self.own else self.pointer + 1

    @property
    def own(self) -> Range | None:
        """Return the newest range if it is done and the pointer is still the one that it left."""
        if self.newest is None or self.newest.state is not RangeState.DONE:
            return None
        last = self.newest.range
        is_being_raised = self.pointer == last.raised_from != NO_POINTER
        return last if is_being_raised or self.pointer == last.pointer_after else None

    @property
    def end(self) -> int:
        """Return the offset before which everything is replicated or in quarantine."""
        return self.own.end if self.own else self.next or 0

    @property
    def was_emptied(self) -> bool:
        """Whether somebody has deleted the pointer: the keyspace begins anew."""
        if self.pointer != NO_POINTER or self.newest is None:
            return False
        last, is_done = self.newest.range, self.newest.state is RangeState.DONE
        return (last.pointer_after if is_done else last.pointer_before) != NO_POINTER

    @property
    def _unfinished(self) -> Range | None:
        if self.newest is None or self.newest.state is not RangeState.RUNNING:
            return None
        return self.newest.range


def reached(
    control: Control, settings: Settings, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, Reached]:
    """Read how far partitions are replicated."""
    pointer_of = pointers.read(control, settings, partitions)
    entries = newest(control, settings, partitions)
    return {tp: Reached(pointer_of.get(tp, NO_POINTER), entries.get(tp)) for tp in partitions}


@dataclass(frozen=True)
class PartitionPosition:
    """How far a topic partition is replicated, and its offsets in Kafka.

    Attributes:
        partition: the topic partition.
        reached: how far it is replicated.
        held: its offsets in Kafka at the start of the run.
    """

    partition: TopicPartition
    reached: Reached
    held: Offsets

    @property
    def next(self) -> int:
        """Return the offset at which the partition continues."""
        offset = self.reached.next
        return self.held.first if offset is None else offset

    @property
    def behind(self) -> int:
        """Return the number of offsets to replicate."""
        return max(0, self.held.end - self.next)

    @property
    def is_open(self) -> bool:
        """Whether an open transaction hides written records."""
        return self.held.end < self.held.written

    def problem(self) -> TopicMoved | None:
        """Return why the partition cannot continue, if it cannot."""
        pointer = self.reached.pointer
        begun = self.reached.begun
        if max(self.next, begun.end if begun else 0) > self.held.written:
            return TopicMoved(
                f"the pointer is {pointer}, and the topic ends before offset {self.held.written}:"
                " it is another topic of that name, or its end was lost",
                where=str(self.partition),
                do="nothing of it was read; replicate it into another keyspace, or empty journal,"
                " metajournal and pointer2 to begin anew",
            )
        if self.next < self.held.first:
            return TopicMoved(
                f"offsets {self.next} to {self.held.first - 1} were not replicated, and Kafka does"
                " not hold them any more",
                where=str(self.partition),
                do="nothing of it was read; restore them, or accept the loss: set the pointer to"
                f" {self.held.first - 1}",
            )
        return None


Older = Mapping[TopicPartition, Mapping[TopicPartition, int]]
"""For partitions without any read record: the end of the older records in others of their topic."""


def older_than(
    kafka: Topics, positions: Sequence[PartitionPosition], begins: Mapping[TopicPartition, datetime]
) -> Older:
    """Return the offsets that must be read before the first record of each partition.

    If a topic gets more partitions, the keys that move to a new one have their first events in
    another. Their later events must not be read before these, or they would look like a journal
    that begins in its middle.

    `positions` are all partitions that can continue; `begins` has the times of their first records.
    """
    by_topic: dict[str, list[PartitionPosition]] = defaultdict(list)
    for p in positions:
        by_topic[p.partition.topic].append(p)
    older: dict[TopicPartition, Mapping[TopicPartition, int]] = {}
    for same_topic in by_topic.values():
        ends = {p.partition: p.held.end for p in same_topic if p.partition in begins}
        new = [p.partition for p in same_topic if p.reached.next is None and p.behind]
        for partition in ends.keys() & new:
            begin = begins[partition]
            # Compared by time, since some offsets may have no record.
            earlier = [tp for tp in ends if begins[tp] < begin]
            limits = kafka.offsets_at(earlier, begin)
            older[partition] = {tp: min(offset, ends[tp]) for tp, offset in limits.items()}
    return older


def cut(
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    most: int,
    older: Older = MappingProxyType({}),
) -> Spans:
    """Return the spans of the next batch: each partition gets its share of `most` offsets.

    Short partitions leave the rest of their share to the others. A partition with offsets gets at
    least one, unless others of its topic have `older` offsets that are not in the batch either.
    """
    unread = {tp: end - starts[tp] for tp, end in ends.items() if end > starts[tp]}
    spans = unordered = _shares(starts, unread, most)
    while early := _too_early(spans, starts, ends, older):
        unread = {tp: number for tp, number in unread.items() if tp not in early}
        spans = _shares(starts, unread, most)
    # Never empty: unread offsets would count as replicated.
    return spans or unordered


def _too_early(
    spans: Spans,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    older: Older,
) -> set[TopicPartition]:
    """Return the partitions of a batch that must wait until others are read."""
    reached = {tp: starts[tp] for tp in ends} | {tp: end for tp, (_, end) in spans.items()}
    return {
        tp
        for tp in spans
        if any(reached.get(other, end) < end for other, end in older.get(tp, {}).items())
    }


def _shares(
    starts: Mapping[TopicPartition, int], unread: Mapping[TopicPartition, int], most: int
) -> Spans:
    spans, remaining = {}, most
    for index, tp in enumerate(sorted(unread, key=lambda tp: (unread[tp], tp))):
        share = max(1, remaining // (len(unread) - index))
        number = min(unread[tp], share)
        spans[tp] = (starts[tp], starts[tp] + number)
        remaining -= number
    return spans


def batch_now(settings: Settings) -> ActionBatch:
    """Return the context of a batch of actions that begins now."""
    now = clock.now()
    # Cassandra keeps milliseconds.
    at = now.replace(microsecond=now.microsecond // 1000 * 1000)
    return ActionBatch(at, settings.kafka_journal_zone, settings.kafka_journal_segment_size)


def write_time_base(first: int, *write_times: int) -> int:
    """Return a base that gives offsets from `first` on later write times than all of `write_times`.

    These are the write times of the ranges before and of the heads that may change.
    """
    later = [time + 1 for time in write_times]
    return max([clock.now_micros(), *later]) - first


def alike(ranges: Iterable[Range]) -> list[Sequence[Range]]:
    """Group ranges that are folded in the same way."""
    groups: dict[ActionBatch, list[Range]] = {}
    for r in ranges:
        groups.setdefault(r.batch, []).append(r)
    return list(groups.values())
