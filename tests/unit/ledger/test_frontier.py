"""Spans of done pieces beside the rows that they stand for; no Cassandra."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tidemark.ledger.frontier import rewritten
from tidemark.ledger.frontier import spans as of_spans
from tidemark.ledger.frontier.spans import Span
from tidemark.ledger.frontier.state import LedgerState
from tidemark.ledger.piece import PieceRow, State
from tidemark.ledger.schedule import scheduled
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.window import to_millis

SIZE = 60_000
T0 = datetime(2026, 11, 1)
VERSIONS = ("1-a", "2-b")


@st.composite
def rows(draw: st.DrawFn) -> list[PieceRow]:
    """Draw a ledger: holes, all states, two versions, ends hours and weeks apart."""
    few = draw(st.sets(st.integers(0, 30)))
    numbers = draw(st.sampled_from([few, set(range(31)) - few]))
    ends = st.one_of(st.integers(0, 5), st.integers(0, 5).map(lambda weeks: weeks * 200))
    made = []
    for number in sorted(numbers):
        state = draw(st.sampled_from([*[State.DONE] * 5, *State]))
        ended = T0 + timedelta(hours=draw(ends))
        made.append(
            PieceRow(
                number * SIZE,
                state,
                draw(st.integers(1, 4)),
                definition_version=draw(st.sampled_from(VERSIONS)),
                finished_at=ended,
                touched_at=ended,
            )
        )
    return made


def without_rows(whole: list[PieceRow], taken_up: set[int]) -> LedgerState:
    """Return the ledger as it stands when some of its time buckets have come into spans."""
    chosen = [row for row in whole if row.time_bucket in taken_up]
    spans = of_spans.extended((), chosen, SIZE)
    inside = of_spans.buckets_of(spans, SIZE)
    return LedgerState(spans, [row for row in whole if row.time_bucket not in inside], SIZE)


TAKEN_UP = st.sets(st.integers(0, 30).map(lambda number: number * SIZE)).flatmap(
    # A few, or all but a few.
    lambda few: st.sampled_from([few, {number * SIZE for number in range(31)} - few])
)


@given(rows(), TAKEN_UP)
def test_spans_say_what_the_rows_say(whole: list[PieceRow], taken_up: set[int]) -> None:
    standing = without_rows(whole, taken_up)
    assert standing.known == {row.time_bucket for row in whole}
    assert standing.done == {row.time_bucket for row in whole if row.state is State.DONE}
    assert standing.open_rows == [row for row in whole if row.state is not State.DONE]
    assert standing.versions == {row.definition_version for row in whole if row.state is State.DONE}
    for version in VERSIONS:
        done = {row.time_bucket for row in whole if row.is_done(version)}
        assert standing.done_by(version) == done
    for row in whole:
        span = of_spans.covering(standing.spans, row.time_bucket)
        if span is None:
            continue
        short = span.row(row.time_bucket)
        assert (short.state, short.definition_version) == (row.state, row.definition_version)
        # What only bounds the truth bounds it from above.
        assert short.attempt >= row.attempt
        assert short.finished_at is not None
        assert row.finished_at is not None
        assert short.finished_at >= row.finished_at
        ended = to_millis(row.finished_at.replace(tzinfo=UTC))
        assert span.ended_first <= ended <= span.ended_last


@given(rows(), TAKEN_UP, st.integers(0, 28), st.integers(1, 5), st.booleans())
def test_schedules_are_those_of_all_rows(
    whole: list[PieceRow], taken_up: set[int], first: int, buckets: int, force: bool
) -> None:
    window = [(first + number) * SIZE for number in range(buckets)]
    before = window[-1] + SIZE
    below = [row for row in whole if row.time_bucket < before]
    standing = without_rows(below, taken_up)
    in_window = [row for row in below if row.time_bucket >= window[0]]
    older = [row for row in standing.rows if row.time_bucket < window[0]]
    short = scheduled(
        window,
        [*older, *in_window],
        VERSIONS[1],
        bucket_ms=SIZE,
        most=10**6,
        force=force,
        known=standing.known,
        since=TimeBuckets([(SIZE, 2 * SIZE)], SIZE),
    )
    complete = scheduled(
        window, below, VERSIONS[1], bucket_ms=SIZE, most=10**6, force=force, since=[SIZE]
    )
    assert short == complete


@given(rows(), st.lists(TAKEN_UP, max_size=4), TAKEN_UP)
def test_spans_grow_and_shrink_in_any_order(
    whole: list[PieceRow], parts: list[set[int]], out: set[int]
) -> None:
    spans: list[Span] = []
    inside: set[int] = set()
    done = {row.time_bucket for row in whole if row.state is State.DONE}
    for part in parts:
        new = [row for row in whole if row.time_bucket in part - inside]
        spans = of_spans.extended(spans, new, SIZE)
        inside |= part & done
        assert of_spans.buckets_of(spans, SIZE) == inside
    spans = of_spans.without(spans, out, SIZE)
    assert of_spans.buckets_of(spans, SIZE) == inside - out
    assert spans == sorted(spans)
    sealed = of_spans.sealed(spans, TimeBuckets.of(out | {0}, SIZE))
    assert of_spans.buckets_of(sealed, SIZE) == inside - out
    assert {bucket for span in sealed if span.is_sealed for bucket in range(*span[:2], SIZE)} == (
        (inside - out) & {0}
    )


@given(rows(), st.integers(-1, 32), st.integers(-1, 32))
def test_spans_are_cut_at_time_buckets(whole: list[PieceRow], first: int, before: int) -> None:
    spans = of_spans.extended((), whole, SIZE)
    cut = of_spans.within(spans, first * SIZE, before * SIZE)
    assert of_spans.buckets_of(cut, SIZE) == {
        bucket
        for bucket in of_spans.buckets_of(spans, SIZE)
        if first * SIZE <= bucket < before * SIZE
    }
    assert all(span.first < span.before for span in cut)
    for span in cut:
        whole_span = of_spans.covering(spans, span.first)
        assert whole_span is not None
        assert span[2:] == whole_span[2:]


def test_a_span_has_pieces_that_ended_within_a_week() -> None:
    week = 7 * 86_400_000
    for apart, number in ((week, 1), (week + 1, 2)):
        ended = [datetime(1970, 1, 1), datetime(1970, 1, 1) + timedelta(milliseconds=apart)]
        done = [
            PieceRow(place * SIZE, State.DONE, 1, definition_version="", finished_at=at)
            for place, at in enumerate(ended)
        ]
        assert len(of_spans.extended((), done, SIZE)) == number


def test_a_sealed_span_does_not_forget_when_its_pieces_ended() -> None:
    sealed = Span(0, SIZE, "1-a", 1, 0, 0, is_sealed=True)
    at = datetime(1970, 1, 1, 1)
    row = PieceRow(SIZE, State.DONE, 1, definition_version="1-a", finished_at=at)
    assert of_spans.extended([sealed], [row], SIZE) == [
        sealed,
        Span(SIZE, 2 * SIZE, "1-a", 1, 3_600_000, 3_600_000),
    ]


def test_a_ledger_in_pieces_is_left_in_rows() -> None:
    every_other = [
        PieceRow(number * SIZE, State.DONE, 1, definition_version="", finished_at=T0)
        for number in range(0, 2 * (of_spans.MOST_SPANS + 1), 2)
    ]
    assert of_spans.extended((), every_other, SIZE) == []
    assert len(of_spans.extended((), every_other[1:], SIZE)) == of_spans.MOST_SPANS
    many = of_spans.extended((), every_other[1:], SIZE)
    last = every_other[-1].time_bucket + SIZE
    grown = PieceRow(last, State.DONE, 1, definition_version="", finished_at=T0)
    assert of_spans.extended(many, [grown], SIZE)[-1].before == last + SIZE


def test_a_span_has_the_highest_attempt_and_the_first_and_the_last_end() -> None:
    ended = [T0 + timedelta(hours=hours) for hours in (2, 9, 5)]
    done = [
        PieceRow(number * SIZE, State.DONE, attempt, definition_version="", finished_at=at)
        for number, (attempt, at) in enumerate(zip((1, 3, 2), ended, strict=True))
    ]
    [span] = of_spans.extended((), done, SIZE)
    millis = [to_millis(at.replace(tzinfo=UTC)) for at in ended]
    assert span == Span(0, 3 * SIZE, "", 3, min(millis), max(millis))


def test_where_ends_overlap_only_the_rows_can_say_what_came_last() -> None:
    def standing(first: int, last: int) -> LedgerState:
        return LedgerState([Span(0, SIZE, "", 1, first, last)], [], SIZE)

    def said(purged: LedgerState, written: LedgerState) -> tuple[bool, bool]:
        found = rewritten.since(purged, written)
        return bool(found.again), bool(found.unsure)

    assert said(standing(5, 9), standing(1, 5)) == (False, False)
    assert said(standing(5, 9), standing(10, 11)) == (True, False)
    assert said(standing(5, 9), standing(9, 11)) == (False, True)
    assert said(standing(5, 9), standing(1, 6)) == (False, True)


def test_what_a_second_purge_has_begun_to_delete_does_not_count_as_written_again() -> None:
    def row(state: State, hours: int) -> PieceRow:
        ended = T0 + timedelta(hours=hours)
        return PieceRow(0, state, 1, definition_version="", finished_at=ended, touched_at=ended)

    written = row(State.DONE, 2)
    for state, is_again in ((State.DONE, True), (State.FAILED, True), (State.RUNNING, False)):
        # The second attempt keeps the end of the first one until it ends itself.
        purged = row(state, 1)
        assert rewritten.is_again(purged, written) == is_again
        found = rewritten.since(LedgerState((), [purged], SIZE), LedgerState((), [written], SIZE))
        assert (bool(found.again), bool(found.unsure)) == (is_again, False)
        assert set(rewritten.begun(LedgerState((), [purged], SIZE))) == {0}


@given(rows(), rows(), TAKEN_UP, TAKEN_UP)
def test_what_was_written_again_is_what_the_rows_say(
    purged: list[PieceRow], written: list[PieceRow], taken_up: set[int], others: set[int]
) -> None:
    writes = {row.time_bucket: row for row in written}
    expected = {
        row.time_bucket for row in purged if rewritten.is_again(row, writes.get(row.time_bucket))
    }
    found = rewritten.since(without_rows(purged, taken_up), without_rows(written, others))
    # The rows of what is not sure are looked at.
    assert found.again - found.unsure == expected - found.unsure
    assert found.again <= expected
    begun = rewritten.begun(without_rows(purged, taken_up))
    assert begun == {
        row.time_bucket for row in purged if row.state in (State.RUNNING, State.DONE, State.FAILED)
    }
