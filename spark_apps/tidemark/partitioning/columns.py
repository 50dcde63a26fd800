"""Key arithmetic as Spark columns, with built-in functions only.

The rules and names are those of `tidemark.partitioning.keys`. Null in, null out.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize

_UINT32_MASK = 2**32 - 1
_INT32_LIMIT = 2**31
_CLOCK_SEQUENCE_VARIANT = 0x8000
_TICKS_PER_MICROSECOND = 10


def java_hash(text: Column) -> Column:
    """Return Java's `String.hashCode` of a string column (bigint, in the range of an int).

    The four hexadecimal digits of each UTF-16 code unit are folded over a bigint that is cut to 32
    bits at every step, so that nothing overflows, in ANSI mode or not.
    """
    units = F.regexp_extract_all(F.hex(F.encode(text, "UTF-16BE")), F.lit("(....)"), F.lit(1))
    unsigned = F.aggregate(units, F.lit(0).cast("bigint"), _hash_step)
    # Moves 2**31..2**32-1 to -2**31..-1, with one use of the fold: Spark evaluates it per use.
    return (unsigned + _INT32_LIMIT).bitwiseAND(F.lit(_UINT32_MASK)) - _INT32_LIMIT


def slice_of(persistence_id: Column) -> Column:
    """Return the slice (int, 0..1023) of a persistence id.

    Spark's `%` keeps the sign as Java's does, so the absolute value comes after it.
    """
    return F.abs(java_hash(persistence_id) % keys.NUMBER_OF_SLICES).cast("int")


def entity_type(persistence_id: Column) -> Column:
    """Return the text before the first `|`, or "" if there is none."""
    has_type = F.instr(persistence_id, "|") > 0
    return F.when(has_type, F.substring_index(persistence_id, "|", 1)).when(~has_type, "")


def time_bucket(epoch_ms: Column, size: BucketSize) -> Column:
    """Return the start (bigint, epoch ms, UTC) of the bucket with `epoch_ms`; floored."""
    return epoch_ms - F.pmod(epoch_ms, F.lit(size.milliseconds))


def messages_time_bucket(epoch_ms: Column, size: BucketSize) -> Column:
    """Return the time bucket as decimal text, like `messages.timebucket`."""
    return time_bucket(epoch_ms, size).cast("string")


def timeuuid_ticks(timeuuid: Column) -> Column:
    """Return the 60-bit time (bigint) of a timeuuid's text: 100 ns ticks since 1582-10-15.

    A text whose version digit is not 1 fails the query with that text.
    """
    # As bytes: Spark counts the characters of the complete string for every substring.
    octets = timeuuid.cast("binary")
    digits = F.concat(
        F.substring(octets, 16, 3), F.substring(octets, 10, 4), F.substring(octets, 1, 8)
    )
    ticks = F.conv(digits.cast("string"), 16, 10).cast("bigint")
    is_timeuuid = (F.substring(octets, 15, 1) == F.lit(b"1")) & (F.length(octets) == 36)
    error = F.raise_error(F.concat(F.lit("not a timeuuid: "), timeuuid)).cast("bigint")
    return F.when(is_timeuuid, ticks).when(~is_timeuuid, error)


def timeuuid_epoch_ms(timeuuid: Column) -> Column:
    """Return the time (bigint, epoch ms, floored) of a timeuuid's text."""
    return ticks_epoch_ms(timeuuid_ticks(timeuuid))


def ticks_epoch_ms(ticks: Column) -> Column:
    """Return the time (bigint, epoch ms, floored) of ticks (100 ns since 1582-10-15)."""
    # Ticks are never negative, so this division floors although Spark's truncates.
    return F.call_function("div", ticks, F.lit(keys.TICKS_PER_MS)) + F.lit(keys.MIN_EPOCH_MS)


def ticks_timestamp(ticks: Column) -> Column:
    """Return the time (timestamp, microseconds, floored) of ticks (100 ns since 1582-10-15)."""
    microseconds = F.call_function("div", ticks, F.lit(_TICKS_PER_MICROSECOND))
    return F.timestamp_micros(microseconds - keys.UUID_EPOCH_TICKS // _TICKS_PER_MICROSECOND)


def epoch_ms_ticks(epoch_ms: Column) -> Column:
    """Return the first tick (bigint, 100 ns since 1582-10-15) of a millisecond."""
    return epoch_ms * keys.TICKS_PER_MS + keys.UUID_EPOCH_TICKS


def ticks_timeuuid(ticks: Column, *, clock_sequence: int, node: int) -> Column:
    """Return the text of the timeuuid with that time, clock sequence and node."""
    digits = F.lower(F.lpad(F.hex(ticks), 16, "0"))
    tail = f"-{_CLOCK_SEQUENCE_VARIANT | clock_sequence:04x}-{node:012x}"
    return F.concat(
        F.substring(digits, 9, 8),
        F.lit("-"),
        F.substring(digits, 5, 4),
        F.lit("-1"),
        F.substring(digits, 2, 3),
        F.lit(tail),
    )


def epoch_ms_timeuuid(epoch_ms: Column) -> Column:
    """Return the text of the first timeuuid of a millisecond: clock sequence and node are 0."""
    return ticks_timeuuid(epoch_ms_ticks(epoch_ms), clock_sequence=0, node=0)


def partition_nr(
    sequence_nr: Column, target_partition_size: int = keys.DEFAULT_TARGET_PARTITION_SIZE
) -> Column:
    """Return the partition (bigint) of `messages` for a single event; sequence nr is 1 or more."""
    return F.call_function("div", sequence_nr - 1, F.lit(target_partition_size)).cast("bigint")


def message_partitions(
    sequence_nr: Column, target_partition_size: int = keys.DEFAULT_TARGET_PARTITION_SIZE
) -> Column:
    """Return the two partitions (array<bigint>) of `messages` one of which has an event."""
    nr = partition_nr(sequence_nr, target_partition_size)
    return F.array(nr, nr + 1)


def head_segment(journal_id: Column, segments: int) -> Column:
    """Return the segment (bigint) of kafka-journal's metajournal for the head of a journal.

    Spark lowers text like Java, which kafka-journal uses.
    """
    return F.abs(java_hash(F.lower(journal_id)) % segments).cast("bigint")


def journal_segment(seq_nr: Column, segment_size: Column) -> Column:
    """Return the segment (bigint) of kafka-journal's journal for an event; seq_nr is 1 or more."""
    return F.call_function("div", seq_nr - 1, segment_size).cast("bigint")


def _hash_step(unsigned: Column, unit: Column) -> Column:
    return (unsigned * 31 + F.conv(unit, 16, 10).cast("bigint")).bitwiseAND(F.lit(_UINT32_MASK))
