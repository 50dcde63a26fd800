"""Where each topic partition goes on, and how much of it a batch takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidemark import clock
from tidemark.errors import TopicMoved
from tidemark.replication.fold import Batch
from tidemark.replication.kafka.records import Spans
from tidemark.replication.kafka.topics import Offsets, TopicPartition
from tidemark.replication.ranges import Entry, Range
from tidemark.settings import Settings


@dataclass(frozen=True)
class Position:
    """How far a topic partition is replicated, and what Kafka holds of it.

    Attributes:
        partition: which one.
        pointer: the offset of the last replicated record; None if there is none.
        held: what Kafka holds, as of the start of the run.
        newest: the newest range in the ledger.
    """

    partition: TopicPartition
    pointer: int | None
    held: Offsets
    newest: Entry | None

    @property
    def next(self) -> int:
        """Return the offset at which the partition goes on."""
        return self.held.first if self.pointer is None else self.pointer + 1

    @property
    def behind(self) -> int:
        """Return the number of offsets that are to be replicated."""
        return max(0, self.held.end - self.next)

    @property
    def unfinished(self) -> Range | None:
        """Return the range that a run has begun and not brought to its end."""
        if self.newest is None or self.newest.is_done:
            return None
        return self.newest.range

    def problem(self) -> TopicMoved | None:
        """Return why the partition cannot go on, if it cannot."""
        begun = self.unfinished
        if self.pointer is None:
            # By now, or from the start: somebody wants it to begin anew.
            return None
        if begun is not None and self.next not in (begun.first, begun.end):
            return TopicMoved(
                f"the pointer is {self.pointer}, and a run that was not ended has begun"
                f" {begun.first} to {begun.end - 1}: another replicator has written it",
                where=str(self.partition),
                do="let only one of them write this keyspace",
            )
        if self.next > self.held.end:
            return TopicMoved(
                f"the pointer is {self.pointer}, and the topic ends before offset {self.held.end}:"
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


def cut(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], most: int
) -> Spans:
    """Return the spans of the next batch: of `most` offsets, each partition gets its share.

    What short partitions leave goes to the others. A partition that has offsets gets one at least.
    """
    behind = {one: end - starts[one] for one, end in ends.items() if end > starts[one]}
    spans, left = {}, most
    for place, one in enumerate(sorted(behind, key=lambda one: (behind[one], one))):
        share = max(1, left // (len(behind) - place))
        taken = min(behind[one], share)
        spans[one] = (starts[one], starts[one] + taken)
        left -= taken
    return spans


def batch_now(settings: Settings) -> Batch:
    """Return how actions are folded by a batch that begins now."""
    now = clock.now()
    # Cassandra keeps milliseconds.
    at = now.replace(microsecond=now.microsecond // 1000 * 1000)
    return Batch(at, settings.kafka_journal_zone, settings.kafka_journal_segment_size)


def write_time_base(first: int, *write_times: int | None) -> int:
    """Return what offsets from `first` on are added to for write times behind all that is written.

    Args:
        first: the first offset.
        write_times: those of the range before and of the heads that may change, if there are any.
    """
    behind = [time + 1 for time in write_times if time is not None]
    return max([clock.now_micros(), *behind]) - first


def alike(ranges: Iterable[Range]) -> list[Sequence[Range]]:
    """Return ranges in groups that are folded in the same way."""
    groups: dict[Batch, list[Range]] = {}
    for one in ranges:
        groups.setdefault(one.batch, []).append(one)
    return list(groups.values())
