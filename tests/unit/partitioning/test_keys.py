"""Key arithmetic in plain Python, against given vectors and against independent formulas."""

from __future__ import annotations

import struct
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.partitioning.key_vectors import PARTITIONS, TIME_BUCKETS, TIMEUUIDS, slice_vectors
from tidemark.errors import InvalidInput
from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize, SliceRange

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_all_slice_vectors_agree() -> None:
    vectors = slice_vectors()
    assert len(vectors) == 835
    computed = [
        (pid, keys.java_hash(pid), keys.slice_of(pid), keys.entity_type(pid)) for pid, *_ in vectors
    ]
    assert computed == vectors


@given(st.text(st.characters()))
def test_java_hash_equals_the_closed_form(text: str) -> None:
    encoded = text.encode("utf-16-le", "surrogatepass")
    units = struct.unpack(f"<{len(encoded) // 2}H", encoded)
    total = sum(unit * 31 ** (len(units) - 1 - i) for i, unit in enumerate(units))
    assert keys.java_hash(text) == (total + 2**31) % 2**32 - 2**31


def test_the_smallest_hash_has_slice_zero() -> None:
    assert keys.java_hash("polygenelubricants") == -(2**31)
    assert keys.slice_of("polygenelubricants") == 0


@pytest.mark.parametrize(
    ("persistence_id", "expected"),
    [("a", ""), ("", ""), ("|a", ""), ("t|e", "t"), ("t|e|replica", "t"), ("t|a|b|c", "t")],
)
def test_entity_type_is_the_text_before_the_first_pipe(persistence_id: str, expected: str) -> None:
    assert keys.entity_type(persistence_id) == expected


def test_four_slice_ranges() -> None:
    assert keys.slice_ranges(4) == [
        SliceRange(0, 255),
        SliceRange(256, 511),
        SliceRange(512, 767),
        SliceRange(768, 1023),
    ]


@pytest.mark.parametrize("number", [2**power for power in range(11)])
def test_slice_ranges_cover_every_slice_once(number: int) -> None:
    ranges = keys.slice_ranges(number)
    assert len(ranges) == number
    assert [n for slices in ranges for n in range(slices.first, slices.last + 1)] == list(
        range(1024)
    )


@pytest.mark.parametrize("number", [-1, 0, 3, 1000, 2048])
def test_slice_ranges_refuse_what_does_not_divide_1024(number: int) -> None:
    with pytest.raises(InvalidInput, match=rf"^{number} slice ranges do not divide 1024"):
        keys.slice_ranges(number)


@pytest.mark.parametrize("text", ["Hour", "hour", " HOUR "])
def test_bucket_size_is_parsed_in_any_case(text: str) -> None:
    assert BucketSize.parse(text) is BucketSize.HOUR


@pytest.mark.parametrize("text", ["", "Week", "3600000", "Hours"])
def test_an_unknown_bucket_size_names_the_choices(text: str) -> None:
    with pytest.raises(InvalidInput, match="choose one of Minute, Hour, Day") as refused:
        BucketSize.parse(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(("epoch_ms", "size", "bucket"), TIME_BUCKETS)
def test_time_bucket(epoch_ms: int, size: BucketSize, bucket: int) -> None:
    assert keys.time_bucket(epoch_ms, size) == bucket
    assert keys.messages_time_bucket(epoch_ms, size) == str(bucket)


@given(st.datetimes(datetime(1600, 1, 1), datetime(5200, 1, 1)), st.sampled_from(BucketSize))
def test_time_bucket_is_the_truncated_datetime(moment: datetime, size: BucketSize) -> None:
    cut = {
        BucketSize.MINUTE: moment.replace(second=0, microsecond=0),
        BucketSize.HOUR: moment.replace(minute=0, second=0, microsecond=0),
        BucketSize.DAY: moment.replace(hour=0, minute=0, second=0, microsecond=0),
    }[size]
    expected, actual = (
        (time.replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1) for time in (cut, moment)
    )
    assert keys.time_bucket(actual, size) == expected


@pytest.mark.parametrize(("text", "ticks", "epoch_ms"), TIMEUUIDS)
def test_timeuuid_to_time(text: str, ticks: int, epoch_ms: int) -> None:
    assert keys.timeuuid_ticks(text) == ticks
    assert keys.timeuuid_epoch_ms(text) == epoch_ms


@pytest.mark.parametrize(("text", "ticks", "epoch_ms"), TIMEUUIDS)
def test_ticks_to_timeuuid(text: str, ticks: int, epoch_ms: int) -> None:
    given_uuid = uuid.UUID(text)
    made = keys.ticks_timeuuid(ticks, clock_sequence=given_uuid.clock_seq, node=given_uuid.node)
    assert made == text.lower()
    assert 0 <= ticks - keys.epoch_ms_ticks(epoch_ms) < keys.TICKS_PER_MS


@given(st.integers(0, keys.MAX_TICKS), st.integers(0, 2**14 - 1), st.integers(0, 2**48 - 1))
def test_a_made_timeuuid_is_what_uuid_reads(ticks: int, clock_sequence: int, node: int) -> None:
    made = uuid.UUID(keys.ticks_timeuuid(ticks, clock_sequence=clock_sequence, node=node))
    assert (made.version, made.variant) == (1, uuid.RFC_4122)
    assert (made.time, made.clock_seq, made.node) == (ticks, clock_sequence, node)


@pytest.mark.parametrize(
    "text",
    [
        *("", "not a uuid", "f25b6171-e552-41f1-b86a-3364b77aea1d", "f25b6171-e552-11f1-b86a"),
        *("f25b6171-e552-01f1-b86a-3364b77aea1d", "f25b6171-e552-11f1-386a-3364b77aea1d"),
    ],
)
def test_what_is_not_a_timeuuid_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a timeuuid"):
        keys.timeuuid_ticks(text)


def test_a_timeuuid_names_times_from_1582_to_5236() -> None:
    first = datetime(1582, 10, 15, tzinfo=UTC)
    last = datetime(5236, 3, 31, 21, 21, 0, 684_000, tzinfo=UTC)
    for moment, epoch_ms in ((first, keys.MIN_EPOCH_MS), (last, keys.MAX_EPOCH_MS)):
        assert (moment - EPOCH) // timedelta(milliseconds=1) == epoch_ms
        ticks = keys.epoch_ms_ticks(epoch_ms)
        assert ticks == (moment - first) // timedelta(microseconds=1) * 10


@pytest.mark.parametrize("epoch_ms", [keys.MIN_EPOCH_MS - 1, keys.MAX_EPOCH_MS + 1])
def test_a_time_outside_the_range_is_refused(epoch_ms: int) -> None:
    with pytest.raises(InvalidInput, match=f"{epoch_ms} ms is outside the range of a timeuuid"):
        keys.epoch_ms_ticks(epoch_ms)


@pytest.mark.parametrize(
    ("ticks", "clock_sequence", "node", "name"),
    [
        (-1, 0, 0, "ticks"),
        (2**60, 0, 0, "ticks"),
        (0, 2**14, 0, "clock sequence"),
        (0, 0, 2**48, "node"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    ticks: int, clock_sequence: int, node: int, name: str
) -> None:
    with pytest.raises(InvalidInput, match=rf"^{name} .* does not fit a timeuuid"):
        keys.ticks_timeuuid(ticks, clock_sequence=clock_sequence, node=node)


@pytest.mark.parametrize(("sequence_nr", "partition"), PARTITIONS)
def test_partition_nr(sequence_nr: int, partition: int) -> None:
    assert keys.partition_nr(sequence_nr) == partition


@pytest.mark.parametrize(("sequence_nr", "size"), [(0, 500_000), (-1, 500_000), (1, 0)])
def test_partition_nr_refuses_numbers_below_one(sequence_nr: int, size: int) -> None:
    with pytest.raises(InvalidInput, match="use numbers from 1"):
        keys.partition_nr(sequence_nr, size)


def test_a_partition_has_as_many_numbers_as_its_size() -> None:
    assert [keys.partition_nr(number, 1) for number in (1, 2, 3)] == [0, 1, 2]
    assert [keys.partition_nr(number, 3) for number in range(1, 8)] == [0, 0, 0, 1, 1, 1, 2]


def test_an_event_lies_in_its_own_partition_or_in_the_next() -> None:
    assert keys.message_partitions(500_000) == (0, 1)
    assert keys.message_partitions(500_001) == (1, 2)
    assert keys.message_partitions(7, 3) == (2, 3)


@pytest.mark.parametrize(
    ("journal_id", "segment"), [("", 0), ("a", 97), ("A", 97), ("hello", 22), ("HELLO", 22)]
)
def test_heads_are_in_100_segments_by_the_hash_of_their_id(journal_id: str, segment: int) -> None:
    """97 and 99162322 are Java's hashes of `a` and `hello`."""
    assert keys.head_segment(journal_id, 100) == segment


def test_a_segment_of_a_journal_has_as_many_events_as_its_size() -> None:
    assert [keys.journal_segment(number, 3) for number in range(1, 8)] == [0, 0, 0, 1, 1, 1, 2]
