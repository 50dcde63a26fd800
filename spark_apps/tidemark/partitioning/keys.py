"""Key arithmetic in plain Python: slices, buckets, timeuuids and partitions.

Source: Pekko persistence-cassandra (journal tables, TimeBucket, TagWriter) and Pekko persistence
(slices). `tidemark.partitioning.columns` has the same rules as Spark columns.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Self
from uuid import UUID

from tidemark.errors import InvalidInput

NUMBER_OF_SLICES = 1024
DEFAULT_TARGET_PARTITION_SIZE = 500_000

TICKS_PER_MS = 10_000
"""A timeuuid counts time in ticks of 100 ns."""
UUID_EPOCH_TICKS = 0x01B2_1DD2_1381_4000
"""Ticks from the start of the Gregorian calendar (1582-10-15) to the Unix epoch."""
MAX_TICKS = 2**60 - 1
MIN_EPOCH_MS = -UUID_EPOCH_TICKS // TICKS_PER_MS
"""1582-10-15T00:00:00Z, the first millisecond of a timeuuid."""
MAX_EPOCH_MS = (MAX_TICKS - UUID_EPOCH_TICKS) // TICKS_PER_MS
"""5236-03-31T21:21:00.684Z, the last millisecond of a timeuuid."""

_UINT32 = 2**32
_INT32_LIMIT = 2**31
_MAX_CLOCK_SEQUENCE = 2**14 - 1
_MAX_NODE = 2**48 - 1


class SliceRange(NamedTuple):
    """A range of slices, both ends inclusive."""

    first: int
    last: int


class BucketSize(StrEnum):
    """Width of a time bucket; the values are the names used in settings."""

    MINUTE = "Minute"
    HOUR = "Hour"
    DAY = "Day"

    @property
    def milliseconds(self) -> int:
        """The width of one bucket in milliseconds."""
        return _BUCKET_MILLISECONDS[self]

    @classmethod
    def parse(cls, text: str, *, where: str = "") -> Self:
        """Return the bucket size of a name in any case; `where` is its setting, for the error.

        Raises:
            InvalidInput: no bucket size has that name; the message lists those that exist.
        """
        for size in cls:
            if size.value.lower() == text.strip().lower():
                return size
        choices = ", ".join(size.value for size in cls)
        raise InvalidInput(
            f"unknown bucket size {text!r}",
            where=where,
            do=f"choose one of {choices}",
        )


_BUCKET_MILLISECONDS = {
    BucketSize.MINUTE: 60_000,
    BucketSize.HOUR: 3_600_000,
    BucketSize.DAY: 86_400_000,
}


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`: 31*h + c over UTF-16 code units, in signed 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    unsigned = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        unsigned = (31 * unsigned + (high << 8 | low)) % _UINT32
    return unsigned - _UINT32 if unsigned >= _INT32_LIMIT else unsigned


def slice_of(persistence_id: str) -> int:
    """Return the slice, 0..1023, of a persistence id.

    Java takes the remainder, which keeps the sign, and then the absolute value; with Python's
    integers, `abs` before `%` gives the same number, even for -2**31.
    """
    return abs(java_hash(persistence_id)) % NUMBER_OF_SLICES


def entity_type(persistence_id: str) -> str:
    """Return the text before the first `|`, or "" if there is none.

    A replicated id (`type|entity|replica`, two pipes) also has its type before the first pipe.
    """
    head, separator, _ = persistence_id.partition("|")
    return head if separator else ""


def slice_ranges(number_of_ranges: int) -> list[SliceRange]:
    """Return `number_of_ranges` equal ranges that cover all slices, in order.

    Raises:
        InvalidInput: the number does not divide 1024.
    """
    if number_of_ranges < 1 or NUMBER_OF_SLICES % number_of_ranges:
        raise InvalidInput(
            f"{number_of_ranges} slice ranges do not divide {NUMBER_OF_SLICES} slices evenly",
            where="number of slice ranges",
            do="choose a power of two from 1 to 1024",
        )
    width = NUMBER_OF_SLICES // number_of_ranges
    return [SliceRange(first, first + width - 1) for first in range(0, NUMBER_OF_SLICES, width)]


def time_bucket(epoch_ms: int, size: BucketSize) -> int:
    """Return the start (epoch ms, UTC) of the bucket with `epoch_ms`; floored before 1970."""
    return epoch_ms - epoch_ms % size.milliseconds


def messages_time_bucket(epoch_ms: int, size: BucketSize) -> str:
    """Return the time bucket as decimal text, like `messages.timebucket`."""
    return str(time_bucket(epoch_ms, size))


def timeuuid_ticks(timeuuid: str) -> int:
    """Return the 60-bit time of a timeuuid: 100 ns ticks since 1582-10-15T00:00:00Z.

    Raises:
        InvalidInput: the text is not a UUID of version 1.
    """
    try:
        uuid = UUID(timeuuid)
    except ValueError as error:
        raise _not_a_timeuuid(timeuuid) from error
    if uuid.version != 1:
        raise _not_a_timeuuid(timeuuid)
    return uuid.time


def timeuuid_epoch_ms(timeuuid: str) -> int:
    """Return the time of a timeuuid in epoch ms, floored."""
    return (timeuuid_ticks(timeuuid) - UUID_EPOCH_TICKS) // TICKS_PER_MS


def epoch_ms_ticks(epoch_ms: int) -> int:
    """Return the first tick (100 ns since 1582-10-15T00:00:00Z) of a millisecond.

    Raises:
        InvalidInput: a timeuuid cannot have that time.
    """
    if not MIN_EPOCH_MS <= epoch_ms <= MAX_EPOCH_MS:
        raise InvalidInput(
            f"{epoch_ms} ms is outside the range of a timeuuid",
            where="time of an event",
            do=f"use {MIN_EPOCH_MS} to {MAX_EPOCH_MS} (years 1582 to 5236)",
        )
    return epoch_ms * TICKS_PER_MS + UUID_EPOCH_TICKS


def ticks_timeuuid(ticks: int, *, clock_sequence: int, node: int) -> str:
    """Return the text of the timeuuid with that time, clock sequence (14 bits) and node (48 bits).

    Raises:
        InvalidInput: a part does not fit into its bits.
    """
    limits = {"ticks": MAX_TICKS, "clock sequence": _MAX_CLOCK_SEQUENCE, "node": _MAX_NODE}
    for (name, limit), value in zip(limits.items(), (ticks, clock_sequence, node), strict=True):
        if not 0 <= value <= limit:
            raise InvalidInput(
                f"{name} {value} does not fit a timeuuid",
                where=f"{name} of a timeuuid",
                do=f"use 0 to {limit}",
            )
    digits = f"{ticks:016x}"
    time_low, time_mid, time_high = digits[8:], digits[4:8], digits[1:4]
    return f"{time_low}-{time_mid}-1{time_high}-{0x8000 | clock_sequence:04x}-{node:012x}"


def partition_nr(
    sequence_nr: int, target_partition_size: int = DEFAULT_TARGET_PARTITION_SIZE
) -> int:
    """Return the partition of `messages` to which a single event of that sequence nr is written.

    Pekko writes all events of a write group to the partition of the last event, so a row of a group
    may be in the next partition: readers must not rely on this number.

    Raises:
        InvalidInput: sequence nr or target partition size is below 1.
    """
    if sequence_nr < 1 or target_partition_size < 1:
        raise InvalidInput(
            f"no partition for sequence nr {sequence_nr}"
            f" at target partition size {target_partition_size}",
            where="partition nr",
            do="use numbers from 1",
        )
    return (sequence_nr - 1) // target_partition_size


def message_partitions(
    sequence_nr: int, target_partition_size: int = DEFAULT_TARGET_PARTITION_SIZE
) -> tuple[int, int]:
    """Return the two partitions of `messages` one of which has an event.

    Pekko rejects a write group that would span three (docs/real-systems.md, "Partitions").
    """
    nr = partition_nr(sequence_nr, target_partition_size)
    return nr, nr + 1


def head_segment(journal_id: str, segments: int) -> int:
    """Return the segment of kafka-journal's metajournal for the head of a journal.

    Source: kafka-journal's SegmentNr (docs/real-systems.md). Ids that differ only in case share a
    segment.
    """
    return abs(java_hash(journal_id.lower())) % segments


def journal_segment(seq_nr: int, segment_size: int) -> int:
    """Return the segment of kafka-journal's journal for an event; seq_nr is 1 or more."""
    return (seq_nr - 1) // segment_size


def _not_a_timeuuid(text: str) -> InvalidInput:
    return InvalidInput(
        f"{text!r} is not a timeuuid", where="timeuuid", do="use the text of a version 1 UUID"
    )
