"""Plans, limits, estimates and lag of the management of projections, without Cassandra."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import cast

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tidemark.journals.pekko.series import Series
from tidemark.ledger.piece import Piece, PieceRow, Reason, State
from tidemark.partitioning.keys import slice_of, slice_ranges
from tidemark.project.definition.model import Definition
from tidemark.project.management import lag
from tidemark.project.management.lag import Lag
from tidemark.project.offset_store import skips
from tidemark.project.offset_store.skips import Skip
from tidemark.project.planning.estimate import Estimates
from tidemark.project.planning.limit import limit_pieces
from tidemark.project.planning.plan import ProjectionPlan
from tidemark.project.position.progress import progress
from tidemark.spark.local_rows import local_rows

HOUR = 3_600_000


def plan_of(pieces: Sequence[Piece], held: frozenset[int] = frozenset()) -> ProjectionPlan:
    definition = cast("Definition", None)
    return ProjectionPlan(definition, pieces, held, frozenset(), 0, False, 10**18)


@given(
    st.lists(
        st.builds(
            Piece,
            st.integers(0, 1000),
            st.sampled_from([Reason.NEW, Reason.UNFINISHED, Reason.GAP, Reason.RESTATED]),
            st.integers(0, 5),
        ),
        unique_by=lambda piece: piece.time_bucket,
    ),
    st.sets(st.integers(0, 1000)),
    st.integers(1, 20),
)
def test_limit_takes_the_oldest_and_loses_none(
    pieces: list[Piece], waiting: set[int], most: int
) -> None:
    pieces.sort(key=lambda piece: piece.time_bucket)
    held = frozenset(piece.time_bucket for piece in pieces) & waiting
    some = limit_pieces(plan_of(pieces, held), most)
    ready = [piece for piece in pieces if piece.time_bucket not in held]
    assert len(some.time_buckets) == min(most, len(ready))
    assert some.held == held
    parts = [*some.pieces, *some.postponed]
    assert sorted(parts, key=lambda piece: piece.time_bucket) == pieces
    taken = [piece for piece in some.pieces if piece.time_bucket not in held]
    for left in some.postponed:
        # Every piece left comes after all pieces taken: gaps last, else by age.
        for kept in taken:
            if left.reason is Reason.GAP:
                assert kept.reason is not Reason.GAP or kept.attempt <= left.attempt
            else:
                assert kept.reason is not Reason.GAP
                assert kept.time_bucket < left.time_bucket


def test_60000_pieces_are_done_in_as_many_runs_as_they_need() -> None:
    pieces = [Piece(number * 60_000, Reason.NEW) for number in range(60_000)]
    done: list[int] = []
    runs = 0
    while pieces:
        some = limit_pieces(plan_of(pieces), 7_000)
        done += some.time_buckets
        pieces, runs = list(some.postponed), runs + 1
    assert runs == 9
    assert done == [number * 60_000 for number in range(60_000)]


def test_gaps_that_never_close_take_turns_and_keep_nobody_waiting() -> None:
    attempts = dict.fromkeys(range(5), 1)
    for run in range(5):
        gaps = [Piece(bucket, Reason.GAP, attempt) for bucket, attempt in attempts.items()]
        some = limit_pieces(plan_of([*gaps, Piece(100 + run, Reason.NEW)]), 2)
        assert some.time_buckets[-1] == 100 + run
        attempts[some.time_buckets[0]] += 1
    assert set(attempts.values()) == {2}


def test_estimates_say_what_they_are() -> None:
    estimates = Estimates({0: 5, HOUR: 1000}, {0: 7})
    assert str(estimates.of([0, HOUR], is_by_tag=False)) == "about 1,005 rows"
    assert str(estimates.of([0], is_by_tag=True)) == "at most 7 rows"
    assert str(estimates.of([0, HOUR], is_by_tag=True)) == "at most 7 rows and ? in 1"
    assert str(estimates.of([HOUR], is_by_tag=True)) == "? rows"


def test_status_names_the_oldest_gap_and_the_newest_error() -> None:
    def at(hour: int) -> datetime:
        return datetime(2024, 3, 1, hour)

    entries = [
        PieceRow(0, State.DONE, 1, error="of an earlier try", definition_version="1-a"),
        PieceRow(1 * HOUR, State.HELD, 4, error="gap: a|1 2 missing", finished_at=at(4)),
        PieceRow(2 * HOUR, State.HELD, 1, error="gap: a|1 2 missing", finished_at=at(5)),
        PieceRow(3 * HOUR, State.FAILED, 1, error="boom", finished_at=at(6)),
        PieceRow(4 * HOUR, State.HELD, 1, error="not validated", finished_at=at(6)),
    ]
    now = progress(entries, "1-a", {hour * HOUR for hour in range(5)}, HOUR)
    assert now.oldest_gap == (HOUR, "gap: a|1 2 missing")
    assert now.gap_age == timedelta(hours=4)
    assert now.last_error == (3 * HOUR, "boom")
    assert progress([], "1-a", set(), HOUR).oldest_gap is None


def test_lags_are_shown_by_ranges_of_slices() -> None:
    lags = {
        0: Lag(1, timedelta(hours=1)),
        511: Lag(2, timedelta(hours=3)),
        1023: Lag(4, is_begun=False),
    }
    lower, upper = slice_ranges(2)
    assert lag.by_range(lags, [lower, upper]) == {
        lower: Lag(3, timedelta(hours=3)),
        upper: Lag(4, is_begun=False),
    }
    assert lag.by_range({}, [lower, upper]) == {}
    assert lag.merge(lags.values()) == Lag(7, timedelta(hours=3), is_begun=False)


def test_events_behind_are_those_that_a_loop_counts(spark: SparkSession) -> None:
    """Frontiers are anywhere, rows double, numbers missing; series begin before the projection."""
    chance, first_bucket = random.Random(7), 10
    rows: list[tuple[str, str, int, int, int | None]] = []
    stored: list[tuple[str, str, int]] = []
    expected: dict[int, int] = {}
    for number in range(300):
        pid, tag = f"p|{number % 150}", ("red", "blue")[number // 150]
        highest, begins = chance.randint(1, 30), chance.randint(0, 20)
        for seq_nr in range(1, highest + 1):
            bucket = begins + seq_nr
            if seq_nr in (1, highest) or chance.random() < 0.8:
                rows += [(pid, tag, seq_nr, bucket, bucket * 1000)] * chance.randint(1, 2)
        numbers = [row[2] for row in rows if row[:2] == (pid, tag) and row[3] >= first_bucket]
        frontier = min(numbers, default=1) - 1
        if chance.random() < 0.7:
            frontier = chance.randint(1, highest)
            stored.append((pid, tag, frontier))
        behind = max(max(numbers) - frontier, 0) if numbers else 0
        expected[slice_of(pid)] = expected.get(slice_of(pid), 0) + behind
    slices = lag.by_slice(
        local_rows(
            spark,
            rows,
            "persistence_id string, tag string, number bigint, time_bucket bigint, epoch_ms bigint",
        ),
        local_rows(spark, stored, "persistence_id string, tag string, stored_number bigint"),
        first_bucket,
    ).collect()
    assert {row.slice: row.behind for row in slices} == {
        number: behind for number, behind in expected.items() if behind
    }
    assert sum(expected.values()) > 500


def test_skipped_event_is_left_out_under_each_of_its_tags(spark: SparkSession) -> None:
    rows = local_rows(
        spark,
        [
            ("p|1", 5, "red", 2),
            ("p|1", 5, "blue", 1),
            ("p|1", 6, "red", 3),
            ("p|1", 7, "blue", 2),
            ("p|2", 5, "red", 2),
        ],
        "persistence_id string, sequence_nr bigint, tag string, number bigint",
    )
    assert skips.without(rows, []) is rows
    left = skips.without(rows, [Skip(Series("p|1", "red"), 1, 2), Skip(Series("p|9"), 1, 9)])
    assert sorted(left.collect()) == [
        ("p|1", 6, "red", 3),
        ("p|1", 7, "blue", 2),
        ("p|2", 5, "red", 2),
    ]
