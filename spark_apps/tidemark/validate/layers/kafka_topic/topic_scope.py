"""The scope of a comparison: everything replicated, some keys, or a range of times or offsets."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tidemark.context import RunContext
from tidemark.errors import InvalidInput, TopicMoved
from tidemark.replicate.kafka.topics import TopicPartition, Topics, placed
from tidemark.replicate.plan import PartitionPosition, reached

_SPAN = re.compile(r"(\d+)-(\d+)")


@dataclass(frozen=True)
class OffsetRange:
    """Offsets of one topic partition, both ends included."""

    partition: TopicPartition
    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> OffsetRange:
        """Parse `topic/partition:first-last`.

        Raises:
            InvalidInput: the text has another form.
        """
        parts = placed(text)
        span = parts and _SPAN.fullmatch(parts[1])
        if not parts or not span or int(span[1]) > int(span[2]):
            raise InvalidInput(
                f"{text} is no range of offsets",
                where="--offsets",
                do="write topic/partition:first-last, such as journal-orders/0:100-200",
            )
        return cls(parts[0], int(span[1]), int(span[2]))


@dataclass(frozen=True)
class TopicScope:
    """The records to judge.

    Attributes:
        topics: if empty, all topics with the prefix of the settings.
        since: the earliest timestamp of a record.
        until: the end of the timestamps, exclusive.
        offsets: if given, only these offsets of their topic partitions.
        keys: if empty, all keys.
    """

    topics: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    offsets: Sequence[OffsetRange] = ()
    keys: Collection[str] = ()

    @property
    def is_range(self) -> bool:
        """Whether only a range of records is judged."""
        return self.since is not None or self.until is not None or bool(self.offsets)

    @property
    def is_everything(self) -> bool:
        """Whether every record of the topics is judged."""
        return not self.is_range and not self.keys


@dataclass(frozen=True)
class OffsetBounds:
    """Offsets of a topic partition, all inclusive.

    Attributes:
        lowest: the lowest offset in scope, whether Kafka still holds it or not.
        first: the first offset to judge.
        last: the last offset to judge.
        pointer: the last replicated offset.
        end: the last offset to read.
        is_complete: whether Kafka holds each record since offset 0; unknown means no.
    """

    lowest: int
    first: int
    last: int
    pointer: int
    end: int
    is_complete: bool = False

    @property
    def span(self) -> tuple[int, int]:
        """The first offset to read, and the offset after the last."""
        return self.first, self.end + 1

    def alone(self) -> OffsetBounds:
        """Return bounds for reading no further than the last judged record."""
        return replace(self, pointer=self.last, end=self.last)


@dataclass(frozen=True)
class JudgedPartitions:
    """The topic partitions with records to judge, and the reasons why others are left out.

    Attributes:
        bounds: by topic partition.
        refused: an error for each topic partition that `replicate` refuses as well.
    """

    bounds: Mapping[TopicPartition, OffsetBounds]
    refused: Sequence[TopicMoved]


def judged_partitions(run: RunContext, topic_scope: TopicScope) -> JudgedPartitions:
    """Return the bounds of each topic partition with records to judge.

    The pointers are read before Kafka's offsets: a record after them was not replicated by then.

    Raises:
        InvalidInput: a topic or partition is unknown.
    """
    kafka = Topics(run.settings)
    ranges = {offsets.partition: offsets for offsets in topic_scope.offsets}
    partitions = kafka.partitions([*topic_scope.topics, *(partition.topic for partition in ranges)])
    if absent := ranges.keys() - set(partitions):
        raise InvalidInput(
            f"there is no partition {min(absent)}", where="--offsets", do="name one that there is"
        )
    partitions = [partition for partition in partitions if not ranges or partition in ranges]
    newest_ranges = reached(run.control, run.settings, partitions)
    pointers = {partition: entry.end - 1 for partition, entry in newest_ranges.items() if entry.end}
    in_kafka = kafka.offsets(pointers)
    positions = [
        PartitionPosition(partition, newest_ranges[partition], in_kafka[partition])
        for partition in pointers
    ]
    problems = {
        position.partition: problem for position in positions if (problem := position.problem())
    }
    readable = [partition for partition in pointers if partition not in problems]
    since = kafka.offsets_at(readable, topic_scope.since) if topic_scope.since else {}
    until = kafka.offsets_at(readable, topic_scope.until) if topic_scope.until else {}
    bounds = {}
    for partition in readable:
        pointer, end = pointers[partition], in_kafka[partition].end - 1
        lowest, last = since.get(partition, 0), min(pointer, end)
        if partition in until:
            last = min(last, until[partition] - 1)
        if partition in ranges:
            requested = ranges[partition]
            lowest, last = max(lowest, requested.first), min(last, requested.last)
        first = max(in_kafka[partition].first, lowest)
        if first <= last:
            bounds[partition] = OffsetBounds(lowest, first, last, pointer, end)
    return JudgedPartitions(bounds, list(problems.values()))
