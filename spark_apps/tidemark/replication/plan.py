"""Where each topic partition goes on, and how much of it a batch takes."""

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
from tidemark.replication.folding import Batch
from tidemark.replication.kafka.topics import Offsets, TopicPartition, Topics
from tidemark.replication.ranges import NO_POINTER, Entry, Range, RangeState, newest
from tidemark.replication.tables import pointers
from tidemark.settings import Settings

if TYPE_CHECKING:
    from tidemark.replication.kafka.records import Spans


@dataclass(frozen=True)
class Reached:
    """How far a topic partition is replicated, by its pointer and the ledger.

    The pointer is what kafka-journal's readers go by: everything up to it is in Cassandra. It stays
    below the oldest record in quarantine, so the ledger tells how far Tidemark itself has come. It
    does as long as the pointer is the one that its newest range has left; else the pointer counts.

    Attributes:
        pointer: NO_POINTER if there is none.
        newest: the newest range in the ledger.
    """

    pointer: int
    newest: Entry | None

    @property
    def begun(self) -> Range | None:
        """Return the range that a dead run has begun, and that is to be done again."""
        one = self._unfinished
        return one if one and self.pointer in (one.pointer_before, one.first - 1) else None

    @property
    def unrecorded(self) -> Range | None:
        """Return the range that only lacks the record of its end."""
        one = self._unfinished
        return one if one and not self.begun and self.pointer == one.pointer_after else None

    @property
    def superseded(self) -> Range | None:
        """Return the range of a dead run that the pointer has left since."""
        return None if self.begun or self.unrecorded else self._unfinished

    @property
    def next(self) -> int | None:
        """Return the offset at which the partition is continued; None if it begins anew."""
        if self.begun:
            return self.begun.first
        if self.unrecorded:
            return self.unrecorded.end
        if self.pointer == NO_POINTER:
            # Of a topic whose first record is kept back, or of a keyspace that was emptied.
            return None
        return self.own.end if self.own else self.pointer + 1

    @property
    def own(self) -> Range | None:
        """Return the newest range if it is done, and the pointer is the one that it has left."""
        if self.newest is None or self.newest.state is not RangeState.DONE:
            return None
        one = self.newest.range
        is_being_raised = self.pointer == one.raised_from != NO_POINTER
        return one if is_being_raised or self.pointer == one.pointer_after else None

    @property
    def end(self) -> int:
        """Return the offset before which all is replicated or in quarantine."""
        return self.own.end if self.own else self.next or 0

    @property
    def was_emptied(self) -> bool:
        """Whether there was a pointer, and somebody has removed it: the keyspace begins anew."""
        if self.pointer != NO_POINTER or self.newest is None:
            return False
        one, is_done = self.newest.range, self.newest.state is RangeState.DONE
        return (one.pointer_after if is_done else one.pointer_before) != NO_POINTER

    @property
    def _unfinished(self) -> Range | None:
        if self.newest is None or self.newest.state is not RangeState.RUNNING:
            return None
        return self.newest.range


def reached(
    control: Control, settings: Settings, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, Reached]:
    """Read how far partitions are replicated."""
    known = pointers.read(control, settings, partitions)
    entries = newest(control, settings, partitions)
    return {one: Reached(known.get(one, NO_POINTER), entries.get(one)) for one in partitions}


@dataclass(frozen=True)
class Position:
    """How far a topic partition is replicated, and what Kafka holds of it.

    Attributes:
        partition: which one.
        reached: how far.
        held: what Kafka holds, as of the start of the run.
    """

    partition: TopicPartition
    reached: Reached
    held: Offsets

    @property
    def next(self) -> int:
        """Return the offset at which the partition is continued."""
        found = self.reached.next
        return self.held.first if found is None else found

    @property
    def behind(self) -> int:
        """Return the number of offsets that are to be replicated."""
        return max(0, self.held.end - self.next)

    @property
    def is_open(self) -> bool:
        """Whether a transaction keeps back records that were written."""
        return self.held.end < self.held.written

    def problem(self) -> TopicMoved | None:
        """Return why the partition cannot go on, if it cannot."""
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
"""Of partitions of which nothing is read yet: up to where the others of their topics are older."""


def older_than(
    kafka: Topics, positions: Sequence[Position], begins: Mapping[TopicPartition, datetime]
) -> Older:
    """Return what must not be read after the first record of each partition.

    Where a topic has got more partitions, the keys that have moved to one of them have their first
    events in another. Their later ones must not come before them, or they would be a journal that
    begins in its middle.

    Args:
        kafka: the topics.
        positions: those of all partitions that can go on.
        begins: the time of the first record of each partition that has one.

    Raises:
        KafkaUnavailable: Kafka does not answer.
    """
    by_topic: dict[str, list[Position]] = defaultdict(list)
    for position in positions:
        by_topic[position.partition.topic].append(position)
    older: dict[TopicPartition, Mapping[TopicPartition, int]] = {}
    for of_topic in by_topic.values():
        ends = {one.partition: one.held.end for one in of_topic if one.partition in begins}
        new = [one.partition for one in of_topic if one.reached.next is None and one.behind]
        for partition in ends.keys() & new:
            begin = begins[partition]
            # Offsets do not tell that one begins later: some of them may have no record.
            earlier = [one for one in ends if begins[one] < begin]
            others = kafka.offsets_at(earlier, begin)
            older[partition] = {one: min(offset, ends[one]) for one, offset in others.items()}
    return older


def cut(
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    most: int,
    older: Older = MappingProxyType({}),
) -> Spans:
    """Return the spans of the next batch: of `most` offsets, each partition gets its share.

    What short partitions leave goes to the others. A partition that has offsets gets one at least,
    unless others of its topic have `older` ones that are not in the batch either.
    """
    unread = {one: end - starts[one] for one, end in ends.items() if end > starts[one]}
    spans = in_any_order = _shares(starts, unread, most)
    while early := _too_early(spans, starts, ends, older):
        unread = {one: number for one, number in unread.items() if one not in early}
        spans = _shares(starts, unread, most)
    # Never none of them: unread offsets would be taken for replicated.
    return spans or in_any_order


def _too_early(
    spans: Spans,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    older: Older,
) -> set[TopicPartition]:
    """Return the partitions of a batch that others must be read before."""
    reached = {one: starts[one] for one in ends} | {one: end for one, (_, end) in spans.items()}
    return {
        one
        for one in spans
        if any(reached.get(other, end) < end for other, end in older.get(one, {}).items())
    }


def _shares(
    starts: Mapping[TopicPartition, int], unread: Mapping[TopicPartition, int], most: int
) -> Spans:
    spans, left = {}, most
    for place, one in enumerate(sorted(unread, key=lambda one: (unread[one], one))):
        share = max(1, left // (len(unread) - place))
        taken = min(unread[one], share)
        spans[one] = (starts[one], starts[one] + taken)
        left -= taken
    return spans


def batch_now(settings: Settings) -> Batch:
    """Return how actions are folded by a batch that begins now."""
    now = clock.now()
    # Cassandra keeps milliseconds.
    at = now.replace(microsecond=now.microsecond // 1000 * 1000)
    return Batch(at, settings.kafka_journal_zone, settings.kafka_journal_segment_size)


def write_time_base(first: int, *write_times: int) -> int:
    """Return what offsets from `first` on are added to for write times behind all that is written.

    Args:
        first: the first offset.
        write_times: those of the ranges before and of the heads that may change.
    """
    behind = [time + 1 for time in write_times]
    return max([clock.now_micros(), *behind]) - first


def alike(ranges: Iterable[Range]) -> list[Sequence[Range]]:
    """Return ranges in groups that are folded in the same way."""
    groups: dict[Batch, list[Range]] = {}
    for one in ranges:
        groups.setdefault(one.batch, []).append(one)
    return list(groups.values())
