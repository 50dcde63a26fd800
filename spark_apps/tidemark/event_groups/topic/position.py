"""Where a stream goes on in each partition of a topic."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.errors import TopicMoved
from tidemark.replicate.kafka.topics import Offsets, TopicPartition


@dataclass(frozen=True)
class TopicPosition:
    """How far a stream has taken a partition, and what Kafka holds of it.

    Attributes:
        partition: which one.
        stored: the offset at which the stream goes on; None if it has taken nothing yet.
        held: what Kafka holds, as of the start of the run.
    """

    partition: TopicPartition
    stored: int | None
    held: Offsets

    @property
    def next(self) -> int:
        """Return the offset of the first record that is to be taken."""
        return self.held.first if self.stored is None else self.stored

    def problem(self) -> TopicMoved | None:
        """Return why the partition cannot go on, if it cannot."""
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
