"""The scope of a comparison: all that is replicated, some keys, or a range of times or offsets."""

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
            InvalidInput: it is none.
        """
        found = placed(text)
        span = found and _SPAN.fullmatch(found[1])
        if not found or not span or int(span[1]) > int(span[2]):
            raise InvalidInput(
                f"{text} is no range of offsets",
                where="--offsets",
                do="write topic/partition:first-last, such as journal-orders/0:100-200",
            )
        return cls(found[0], int(span[1]), int(span[2]))


@dataclass(frozen=True)
class TopicScope:
    """What is to be judged.

    Attributes:
        topics: only these; all with the prefix of the settings if none is named.
        since: only records from this time on, by their timestamps.
        until: only records before it.
        offsets: only these, of their topic partitions.
        keys: only these; all if none is named.
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
    def is_whole(self) -> bool:
        """Whether everything of the topics is judged."""
        return not self.is_range and not self.keys


@dataclass(frozen=True)
class OffsetBounds:
    """Offsets of a topic partition, all included.

    Attributes:
        lowest: the lowest that is in scope, whether Kafka still holds it or not.
        first: the first that is judged.
        last: the last that is judged.
        pointer: the last that is replicated.
        end: the last that is read.
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
        """Return the first offset that is read, and the one after the last."""
        return self.first, self.end + 1

    def alone(self) -> OffsetBounds:
        """Return the bounds of a reading that ends with the last judged record."""
        return replace(self, pointer=self.last, end=self.last)


@dataclass(frozen=True)
class Within:
    """The topic partitions of which something is judged, and the reasons for which others are not.

    Attributes:
        bounds: by topic partition.
        refused: an error for each topic partition that `replicate` refuses as well.
    """

    bounds: Mapping[TopicPartition, OffsetBounds]
    refused: Sequence[TopicMoved]


def within(run: RunContext, asked: TopicScope) -> Within:
    """Return the bounds of each topic partition of which something is judged.

    The pointers are read before Kafka's offsets: a record after them was not replicated by then.

    Raises:
        InvalidInput: a topic or partition is unknown.
        KafkaUnavailable: Kafka does not answer.
    """
    kafka = Topics(run.settings)
    named = {one.partition: one for one in asked.offsets}
    partitions = kafka.partitions([*asked.topics, *(one.topic for one in named)])
    if absent := named.keys() - set(partitions):
        raise InvalidInput(
            f"there is no partition {min(absent)}", where="--offsets", do="name one that there is"
        )
    partitions = [one for one in partitions if not named or one in named]
    far = reached(run.control, run.settings, partitions)
    known = {one: entry.end - 1 for one, entry in far.items() if entry.end}
    held = kafka.offsets(known)
    positions = [PartitionPosition(one, far[one], held[one]) for one in known]
    problems = {one.partition: problem for one in positions if (problem := one.problem())}
    able = [one for one in known if one not in problems]
    since = kafka.offsets_at(able, asked.since) if asked.since else {}
    until = kafka.offsets_at(able, asked.until) if asked.until else {}
    found = {}
    for one in able:
        lowest, last = since.get(one, 0), min(known[one], held[one].end - 1)
        if one in until:
            last = min(last, until[one] - 1)
        if one in named:
            lowest, last = max(lowest, named[one].first), min(last, named[one].last)
        first = max(held[one].first, lowest)
        if first <= last:
            found[one] = OffsetBounds(lowest, first, last, known[one], held[one].end - 1)
    return Within(found, list(problems.values()))
