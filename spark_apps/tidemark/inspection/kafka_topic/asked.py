"""What of the topics is judged: all that is replicated, or a range of times or offsets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.replication.kafka.topics import TopicPartition, Topics, placed
from tidemark.replication.plan import reached

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
class Asked:
    """What is to be judged.

    Attributes:
        topics: only these; all with the prefix of the settings if none is named.
        since: only records from this time on, by their timestamps.
        until: only records before it.
        offsets: only these, of their topic partitions.
    """

    topics: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    offsets: Sequence[OffsetRange] = ()

    @property
    def is_whole(self) -> bool:
        """Whether everything of the topics is judged."""
        return self.since is None and self.until is None and not self.offsets


@dataclass(frozen=True)
class Bounds:
    """Offsets of a topic partition, all included: its last one, those judged, and the pointer."""

    end: int
    first: int
    last: int
    pointer: int


def bounds(run: RunContext, asked: Asked) -> Mapping[TopicPartition, Bounds]:
    """Return the bounds of each topic partition of which something is judged.

    The pointers are read first: what is found behind one was not there, or not done, by then.

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
    known = {one: entry.next - 1 for one, entry in far.items() if entry.next}
    held = kafka.offsets(known)
    since = kafka.offsets_at(known, asked.since) if asked.since else {}
    until = kafka.offsets_at(known, asked.until) if asked.until else {}
    found = {}
    for one, pointer in known.items():
        begin, end = held[one].first, held[one].end - 1
        first, last = max(begin, since.get(one, 0)), min(pointer, end)
        if one in until:
            last = min(last, until[one] - 1)
        if one in named:
            first, last = max(first, named[one].first), min(last, named[one].last)
        if first <= last:
            found[one] = Bounds(end, first, last, pointer)
    return found
