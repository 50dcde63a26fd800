"""The time buckets that may be purged, by retention and by the needs of projections."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidemark.purge.plan import ReaderNeed, describe, plan_purge
from tidemark.window import Window, from_millis

DAY = 86_400_000
NOW = 40 * DAY


def window(first_day: int, end_day: int) -> Window:
    return Window(from_millis(first_day * DAY), from_millis(end_day * DAY))


def kept(
    partitions: list[tuple[str, int]],
    needs: list[ReaderNeed],
    *,
    oldest_kept: int = NOW,
    end: int = 40,
) -> dict[int, str]:
    """Return by day the reason why it stays; an empty text if it may go."""
    plan = plan_purge(
        [(tag, day * DAY) for tag, day in partitions],
        window(0, end),
        bucket_ms=DAY,
        oldest_kept=oldest_kept,
        needs=needs,
    )
    return {bucket.time_bucket // DAY: bucket.kept_because for bucket in plan}


def need(name: str, tags: set[str], done_days: set[int]) -> ReaderNeed:
    return ReaderNeed(name, frozenset(tags), frozenset(day * DAY for day in done_days))


def test_bucket_goes_once_it_ended_before_the_retention() -> None:
    partitions = [("t", 1), ("t", 2), ("t", 3)]
    assert kept(partitions, [], oldest_kept=3 * DAY) == {
        1: "",
        2: "",
        3: "younger than the retention",
    }


def test_nothing_past_the_slowest_projection_goes_even_if_it_skipped_ahead() -> None:
    partitions = [("t", day) for day in range(1, 6)]
    fast, slow = need("fast", {"t"}, {1, 2, 3, 4, 5}), need("slow", {"t"}, {1, 2, 4, 5})
    assert kept(partitions, [fast, slow]) == {
        1: "",
        2: "",
        3: "needed by slow",
        4: "needed by slow",
        5: "needed by slow",
    }


def test_projection_that_never_ran_keeps_everything_it_reads() -> None:
    partitions = [("t", 1), ("other", 1), ("other", 2)]
    assert kept(partitions, [need("new", {"t"}, set())]) == {
        1: "needed by new",
        2: "needed by new",
    }
    assert kept(partitions, [need("new", {"elsewhere"}, set())]) == {1: "", 2: ""}


def test_only_the_window_is_planned_but_needs_count_before_it() -> None:
    partitions = [("t", 1), ("t", 5)]
    plan = plan_purge(
        [(tag, day * DAY) for tag, day in partitions],
        window(4, 6),
        bucket_ms=DAY,
        oldest_kept=NOW,
        needs=[need("slow", {"t"}, {5})],
    )
    assert [describe(bucket) for bucket in plan] == [
        "1970-01-06 00:00  keep: needed by slow  1 tags: t"
    ]


def test_the_window_has_its_first_bucket_and_ends_before_its_end() -> None:
    plan = plan_purge(
        [("t", day * DAY) for day in range(8)],
        window(4, 6),
        bucket_ms=DAY,
        oldest_kept=NOW,
        needs=[],
    )
    assert [bucket.time_bucket // DAY for bucket in plan] == [4, 5]


def test_projection_needs_nothing_before_the_bucket_that_it_begins_with() -> None:
    late = ReaderNeed("late", frozenset("t"), frozenset(), begin=3 * DAY)
    assert kept([("t", day) for day in (2, 3)], [late]) == {2: "", 3: "needed by late"}
    assert kept([("t", day) for day in (2, 4)], [late]) == {2: "", 4: "needed by late"}


def test_bucket_that_an_earlier_purge_began_is_decided_about_as_well() -> None:
    plan = plan_purge(
        [("t", DAY), ("t", 5 * DAY)],
        window(4, 6),
        bucket_ms=DAY,
        oldest_kept=NOW,
        needs=[],
        unfinished=[DAY],
    )
    assert [bucket.time_bucket for bucket in plan] == [DAY, 5 * DAY]


def test_without_a_window_everything_past_the_retention_is_planned_and_nothing_else() -> None:
    plan = plan_purge(
        [("t", day * DAY) for day in (0, 4, 5, 6)],
        None,
        bucket_ms=DAY,
        oldest_kept=6 * DAY,
        needs=[],
    )
    assert [(bucket.time_bucket // DAY, bucket.kept_because) for bucket in plan] == [
        (0, ""),
        (4, ""),
        (5, ""),
    ]


def test_without_a_window_a_bucket_is_planned_once_it_has_ended_and_whatever_its_age() -> None:
    partitions = [("t", day * DAY) for day in (-1, 4, 5)]
    for oldest_kept, days in ((6 * DAY - 1, [-1, 4]), (6 * DAY, [-1, 4, 5])):
        plan = plan_purge(partitions, None, bucket_ms=DAY, oldest_kept=oldest_kept, needs=[])
        assert [bucket.time_bucket // DAY for bucket in plan] == days
    unread = ReaderNeed("new", frozenset("t"), frozenset())
    plan = plan_purge(partitions, None, bucket_ms=DAY, oldest_kept=NOW, needs=[unread])
    assert [bucket.kept_because for bucket in plan] == ["needed by new"] * 3


def test_what_nobody_knows_the_needs_of_keeps_all_it_is_not_done_with() -> None:
    plan = plan_purge(
        [("t", day * DAY) for day in (1, 2, 3)],
        None,
        bucket_ms=DAY,
        oldest_kept=NOW,
        needs=[need("slow", {"t"}, {1}), ReaderNeed("absent", None, frozenset([DAY, 2 * DAY]))],
    )
    assert [bucket.kept_because for bucket in plan] == [
        "",
        "needed by slow",
        "needed by absent, slow",
    ]


days = st.integers(0, 12)
tags = st.sampled_from("abc")


@given(
    partitions=st.sets(st.tuples(tags, days)),
    readers=st.lists(st.tuples(st.sets(tags, min_size=1), st.sets(days)), max_size=3),
    oldest_kept=days,
)
def test_a_purged_bucket_is_old_and_consumed_by_every_reader_up_to_it(
    partitions: set[tuple[str, int]],
    readers: list[tuple[set[str], set[int]]],
    oldest_kept: int,
) -> None:
    needs = [need(str(place), read, done) for place, (read, done) in enumerate(readers)]
    verdicts = kept(sorted(partitions), needs, oldest_kept=oldest_kept * DAY)
    for day, reason in verdicts.items():
        is_old = day + 1 <= oldest_kept
        is_consumed = all(
            earlier in done
            for read, done in readers
            for tag, earlier in partitions
            if tag in read and earlier <= day
        )
        assert (reason == "") == (is_old and is_consumed)
