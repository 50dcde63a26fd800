"""The position of a stream in each partition of a topic."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.errors import TopicMoved
from tidemark.replicate.kafka.topics import Offsets, TopicPartition


@dataclass(frozen=True)
class TopicPosition:
    """The offset of a stream in a partition, and the offsets that Kafka has.

    Attributes:
        partition: of the topic.
        stored: the next offset of the stream; None if it has read nothing yet.
        held: the offsets that Kafka has, as of the start of the run.
    """

    partition: TopicPartition
    stored: int | None
    held: Offsets

    @property
    def next(self) -> int:
        """Return the offset of the next record to read."""
        return self.held.first if self.stored is None else self.stored

    def problem(self) -> TopicMoved | None:
        """Return why the partition cannot continue; None if it can."""
        if self.next > self.held.end:
            return TopicMoved(
                f"the stream goes on at offset {self.next}, and the topic ends before"
                f" {self.held.end}: it is another topic of that name, or its end was lost",
                where=str(self.partition),
                do="nothing of it was read; submit from another topic, or set next_offset in"
                " event_group_source to where the stream is to go on",
            )
        if self.next < self.held.first:
            return TopicMoved(
                f"offsets {self.next} to {self.held.first - 1} were not submitted, and Kafka does"
                " not hold them any more",
                where=str(self.partition),
                do="nothing of it was read; submit what they held as files, and set next_offset in"
                f" event_group_source to {self.held.first}",
            )
        return None
