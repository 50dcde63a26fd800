"""The rows of deleted events that may leave the tag views: single cases and a model by loops."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from tidemark.reconcile.propagate_deletes import verdicts as propagate_rows
from tidemark.spark.local_rows import local_rows

YOUNG = 100
LIMIT = 5001


@dataclass(frozen=True)
class Series:
    """The rows of a persistence id and tag, and their events that are left.

    Attributes:
        rows: time bucket by tag pid sequence nr; the event of number n has sequence nr 10 n.
        held: the sequence nrs that are still in messages.
        deleted_to: the sequence nr in metadata, or None.
        progress: the number in tag_write_progress, or None.
        needed_from: the first time bucket that a projection of the tag still needs, or None.
    """

    rows: Mapping[int, int]
    held: frozenset[int] = frozenset()
    deleted_to: int | None = None
    progress: int | None = None
    needed_from: int | None = None


def verdicts(series: Series, *, allow_unsearchable: bool = False) -> dict[int, str]:
    """Compute by loops the verdict on each row of a deleted event, by number."""
    deleted = [
        n for n in series.rows if 10 * n <= (series.deleted_to or 0) and 10 * n not in series.held
    ]
    by_number = {}
    for number in deleted:
        if series.rows[number] >= YOUNG:
            by_number[number] = "young"
        elif series.needed_from is not None and series.rows[number] >= series.needed_from:
            by_number[number] = "needed"
    kept = [n for n in series.rows if n not in deleted or n in by_number]
    first_left = min(kept) if kept else series.progress and series.progress + 1
    for number in sorted(set(deleted) - set(by_number)):
        if kept and number > min(kept):
            by_number[number] = "behind"
        elif first_left is None:
            by_number[number] = "no_progress"
        elif first_left > LIMIT and not allow_unsearchable:
            by_number[number] = "beyond_search_limit"
        else:
            by_number[number] = "goes"
    return by_number


def found_by_spark(
    spark: SparkSession, all_series: Iterable[Series], *, allow_unsearchable: bool = False
) -> list[dict[int, str]]:
    """Compute the verdicts by the transformations, in one job; each series has its own id."""
    named = {f"p{place}": series for place, series in enumerate(all_series)}

    def frame(rows: Sequence[tuple[object, ...]], schema: str) -> DataFrame:
        return local_rows(spark, rows, f"persistence_id string, {schema}")

    rows = [
        (pid, pid, 10 * number, number, f"t{number}", number, bucket)
        for pid, series in named.items()
        for number, bucket in series.rows.items()
    ]
    of_deleted = propagate_rows.with_is_deleted(
        frame(
            rows,
            "tag string, sequence_nr bigint, tag_pid_sequence_nr bigint, timestamp string,"
            " ticks bigint, time_bucket bigint",
        ),
        frame(
            [(pid, nr, f"t{nr // 10}") for pid, series in named.items() for nr in series.held],
            "sequence_nr bigint, timestamp string",
        ),
        frame([(pid, series.deleted_to) for pid, series in named.items()], "deleted_to bigint"),
    )
    progress = frame(
        [(pid, pid, s.progress) for pid, s in named.items() if s.progress is not None],
        "tag string, progress_number bigint",
    )
    judged = propagate_rows.with_verdicts(
        of_deleted,
        progress,
        first_young=YOUNG,
        needed_from={pid: s.needed_from for pid, s in named.items() if s.needed_from is not None},
        allow_unsearchable=allow_unsearchable,
    )
    verdicts_of: dict[str, dict[int, str]] = {pid: {} for pid in named}
    for row in judged.collect():
        verdicts_of[row.persistence_id][row.tag_pid_sequence_nr] = row.verdict
    return list(verdicts_of.values())


def old(*numbers: int) -> dict[int, int]:
    return dict.fromkeys(numbers, 1)


CASES: dict[str, tuple[Series, dict[int, str]]] = {
    "front deleted": (
        Series(old(1, 2, 3), frozenset({30}), 20, progress=3),
        {1: "goes", 2: "goes"},
    ),
    "nothing deleted": (Series(old(1, 2), frozenset({10, 20}), None, progress=2), {}),
    "deleted logically only": (Series(old(1, 2), frozenset({10, 20}), 10, progress=2), {}),
    "a message that is left keeps all rows behind it": (
        Series(old(1, 2, 3, 4), frozenset({20, 40}), 30, progress=4),
        {1: "goes", 3: "behind"},
    ),
    "all rows of the tag": (Series(old(1, 2), frozenset(), 30, 2), {1: "goes", 2: "goes"}),
    "all rows, and no progress": (
        Series(old(1, 2), frozenset(), 30),
        {1: "no_progress", 2: "no_progress"},
    ),
    "young rows stay, and what is behind them": (
        Series({1: 1, 2: YOUNG, 3: 1, 4: 1}, frozenset({40}), 30, 4),
        {1: "goes", 2: "young", 3: "behind"},
    ),
    "needed rows stay": (
        Series({1: 1, 2: 2, 3: 3}, frozenset({30}), 20, 3, needed_from=2),
        {1: "goes", 2: "needed"},
    ),
    "first number left at the limit": (
        Series(old(5000, 5001), frozenset({50010}), 50000, 5001),
        {5000: "goes"},
    ),
    "first number left beyond the limit": (
        Series(old(5001, 5002), frozenset({50020}), 50010, 5002),
        {5001: "beyond_search_limit"},
    ),
    "next number beyond the limit": (
        Series(old(5001), frozenset(), 50010, 5001),
        {5001: "beyond_search_limit"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_model(name: str) -> None:
    series, expected = CASES[name]
    assert verdicts(series) == expected


def test_transformations_agree_with_the_cases(spark: SparkSession) -> None:
    all_series = [series for series, _ in CASES.values()]
    by_name = dict(zip(CASES, found_by_spark(spark, all_series), strict=True))
    assert by_name == {name: expected for name, (_, expected) in CASES.items()}


def test_beyond_the_limit_only_when_it_is_asked_for(spark: SparkSession) -> None:
    beyond, _ = CASES["first number left beyond the limit"]
    assert found_by_spark(spark, [beyond], allow_unsearchable=True) == [{5001: "goes"}]


@st.composite
def any_series(draw: st.DrawFn) -> Series:
    first = draw(st.sampled_from([1, 3, 4998]))
    numbers = range(first, first + draw(st.integers(1, 6)))
    buckets = st.sampled_from([1, 2, 3, YOUNG, YOUNG + 1])
    return Series(
        {number: draw(buckets) for number in numbers},
        frozenset(10 * n for n in numbers if draw(st.booleans())),
        draw(st.none() | st.integers(0, 10 * numbers[-1])),
        draw(st.none() | st.just(numbers[-1])),
        draw(st.none() | st.integers(1, 4)),
    )


@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(many=st.lists(any_series(), min_size=60, max_size=60), beyond=st.booleans())
def test_transformations_agree_with_the_model(
    spark: SparkSession, many: list[Series], beyond: bool
) -> None:
    actual = found_by_spark(spark, many, allow_unsearchable=beyond)
    assert actual == [verdicts(series, allow_unsearchable=beyond) for series in many]


def test_what_is_left_has_no_gap_that_was_not_there(spark: SparkSession) -> None:
    """The promise to readers holds for all combinations of four stored, deleted or young events."""
    ways = itertools.product([1, YOUNG], [True, False], repeat=4)
    all_series = [
        Series(
            dict(zip(range(1, 5), way[::2], strict=True)),
            frozenset(10 * n for n, is_held in zip(range(1, 5), way[1::2], strict=True) if is_held),
            40,
            4,
        )
        for way in ways
    ]
    for series, verdict_of in zip(all_series, found_by_spark(spark, all_series), strict=True):
        left = sorted(n for n in series.rows if verdict_of.get(n) != "goes")
        assert left == list(range(5 - len(left), 5)), series
