"""The window of a run: half open, in UTC, of whole buckets, not in the future."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.errors import InvalidInput
from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize
from tidemark.window import Window, from_millis, iso, to_millis

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_bounds_in_other_zones_are_the_same_moment() -> None:
    window = Window.parse("2013-01-01T05:30:00+05:30", "2013-01-02")
    assert str(window) == "[2013-01-01T00:00:00Z, 2013-01-02T00:00:00Z)"


def test_window_that_ends_now_is_not_in_the_future() -> None:
    Window(NOW - timedelta(hours=1), NOW).require_whole_buckets(BucketSize.HOUR, NOW)


@pytest.mark.parametrize("late", [timedelta(microseconds=1), timedelta(seconds=1)])
def test_bound_inside_a_bucket_is_refused(late: timedelta) -> None:
    start = NOW - timedelta(hours=2)
    with pytest.raises(InvalidInput, match="cuts a time bucket of bucket size Minute"):
        Window(start + late, NOW).require_whole_buckets(BucketSize.MINUTE, NOW)


@given(
    st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)),
    st.integers(1, 50),
    st.sampled_from(BucketSize),
)
def test_buckets_cover_the_window_without_overlap(
    moment: datetime, count: int, size: BucketSize
) -> None:
    first = keys.time_bucket(to_millis(moment.replace(tzinfo=UTC)), size)
    window = Window(from_millis(first), from_millis(first + count * size.milliseconds))
    buckets = list(window.buckets(size))
    assert len(buckets) == count
    assert buckets == [first + place * size.milliseconds for place in range(count)]
    assert all(keys.time_bucket(bucket, size) == bucket for bucket in buckets)


@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-5))])))
def test_text_of_a_moment_reads_back(moment: datetime) -> None:
    text = iso(moment)
    assert text.endswith("Z")
    assert datetime.fromisoformat(text) == moment
