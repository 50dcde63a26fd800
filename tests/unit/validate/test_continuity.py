"""Each check of sequence continuity: its findings, their buckets, and what it does not report."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.unit.conftest import Examples
from tests.unit.validate.continuity_frames import found_by_spark
from tests.unit.validate.continuity_model import Event, Found, History, Row, expected_findings
from tidemark.ledger.purged import Removed
from tidemark.validate.findings.checks import DELETED_TO_AHEAD
from tidemark.validate.plan import PendingTagWrites
from tidemark.validate.tag_views.finding_kinds import OF_CONTINUITY

DAYS = range(1, 7)
PURGED = frozenset({1, 2})
OWED = frozenset({4, 6})
WHOLE = History.whole((1, "a"), (2, "ab"), (3, ""), (4, "a"), (5, "b"))
"""Tag a has the numbers 1, 2, 3 on events 1, 2, 4; tag b has 1, 2 on events 2, 5."""

UNTOUCHED: dict[str, tuple[History, set[Found]]] = {
    "whole": (WHOLE, set()),
    "nothing but a listed id": (History(), set()),
    "gap": (
        WHOLE.without_events(3),
        {("sequence_nr_gap", "", 4, 3, 4)},
    ),
    "gap of two below a deletion": (
        replace(WHOLE.without_events(2, 3), deleted_to=3),
        set(),
    ),
    "gap that a deletion covers in part": (
        replace(WHOLE.without_events(2, 3), deleted_to=2),
        {("sequence_nr_gap", "", 4, 3, 4)},
    ),
    "missing head": (
        WHOLE.without_events(1, 2),
        {("sequence_nr_missing_head", "", 3, 1, 3)},
    ),
    "deleted head": (replace(WHOLE.without_events(1, 2), deleted_to=2), set()),
    "head missing above a deletion": (
        replace(WHOLE.without_events(1, 2, 3), deleted_to=2),
        {("sequence_nr_missing_head", "", 4, 3, 4)},
    ),
    "duplicate": (
        replace(WHOLE, events=(*WHOLE.events, Event(3, 5, copy=1))),
        {("sequence_nr_duplicate", "", 3, 3, 5)},
    ),
    "tail that progress knows": (
        WHOLE.without_events(5),
        {("sequence_nr_lost_tail", "", 4, 5, 5)},
    ),
    "tail that only scanning knows": (
        replace(WHOLE, scanned_to=7),
        {("sequence_nr_lost_tail", "", 5, 7, 6)},
    ),
    "everything lost": (
        WHOLE.without_events(*range(6)),
        {("sequence_nr_lost_tail", "", 0, 5, 5)},
    ),
    "cleaned up for good": (
        replace(WHOLE.without_events(*range(6)), is_listed=False),
        set(),
    ),
    "everything deleted": (
        replace(WHOLE.without_events(*range(6)), deleted_to=5),
        set(),
    ),
    "no payload": (
        replace(WHOLE, events=tuple(replace(e, is_empty=e.number in (3, 4)) for e in WHOLE.events)),
        {("null_payload", "", 3, None, 3), ("null_payload", "", 4, None, 4)},
    ),
    "no payload, deleted": (
        replace(
            WHOLE,
            events=tuple(replace(e, is_empty=e.number == 3) for e in WHOLE.events),
            deleted_to=3,
        ),
        set(),
    ),
    "tag gap": (
        WHOLE.without_events(2).without_rows(2),
        {
            ("sequence_nr_gap", "", 3, 2, 3),
            ("tag_pid_sequence_nr_gap", "a", 3, 2, 4),
            ("tag_pid_sequence_nr_lost_tail", "b", 1, 2, 5),
        },
    ),
    "tag head": (
        replace(WHOLE, rows=tuple(row for row in WHOLE.rows if row.event != 1)),
        {
            ("tag_pid_sequence_nr_missing_head", "a", 2, 1, 2),
        },
    ),
    "one number on two rows": (
        replace(WHOLE, rows=(*WHOLE.rows, Row("a", 2, 9, 6))),
        {
            ("tag_pid_sequence_nr_duplicate", "a", 2, 2, 6),
            ("tag_pid_sequence_nr_out_of_order", "a", 3, None, 4),
        },
    ),
    "one event with two numbers": (
        replace(WHOLE, rows=(*WHOLE.rows, Row("a", 4, 4, 4, copy=1))),
        {("tag_pid_sequence_nr_duplicate", "a", 4, 3, 4)},
    ),
    "numbers that are swapped": (
        replace(
            WHOLE,
            rows=(
                *(row for row in WHOLE.rows if row.tag != "a"),
                *(Row("a", 1, 1, 1), Row("a", 3, 2, 2), Row("a", 2, 4, 4)),
            ),
        ),
        {("tag_pid_sequence_nr_out_of_order", "a", 3, None, 2)},
    ),
    "a row behind the last event": (
        replace(WHOLE, rows=(*WHOLE.rows, Row("a", 4, 6, 6))),
        set(),
    ),
    "tag tail": (
        replace(WHOLE, rows=tuple(row for row in WHOLE.rows if row.event != 4)),
        {
            ("tag_pid_sequence_nr_lost_tail", "a", 2, 3, 4),
        },
    ),
    "rows that followed their deleted events": (
        replace(WHOLE.without_events(1, 2).without_rows(1), deleted_to=2),
        set(),
    ),
    "all rows of a tag that followed their deleted events": (
        replace(WHOLE.without_events(*range(6)).without_rows(*range(6)), deleted_to=5),
        set(),
    ),
    "tail lost above rows that followed their deleted events": (
        replace(WHOLE.without_events(1, 2).without_rows(1), deleted_to=2).without_rows(3),
        {("tag_pid_sequence_nr_lost_tail", "a", 2, 3, 4)},
    ),
    "an event that nobody can read": (
        History(
            (
                Event(1, 1, ("a",)),
                Event(2, 2, ("a", "b"), is_unwritable=True),
                Event(3, 3),
                Event(4, 4, ("a",)),
            ),
            (Row("a", 1, 1, 1), Row("a", 2, 4, 4)),
            {"a": (4, 2, 4)},
            4,
        ),
        set(),
    ),
    "an event in a wrong partition": (
        replace(WHOLE, events=tuple(replace(e, is_misplaced=e.number == 3) for e in WHOLE.events)),
        {("wrong_partition_nr", "", 3, None, 3)},
    ),
    "an event in a wrong partition that is deleted": (
        replace(
            WHOLE,
            events=tuple(replace(e, is_misplaced=e.number == 3) for e in WHOLE.events),
            deleted_to=3,
        ),
        set(),
    ),
    "progress that lags": (
        replace(WHOLE, progress={"a": (1, 1, 1)}, scanned_to=None),
        set(),
    ),
}

AFTER_A_PURGE: dict[str, tuple[History, set[Found]]] = {
    "purged head": (WHOLE.purged(1, 2), set()),
    "purged head of deleted events": (
        replace(WHOLE.purged(1, 2).without_events(1, 2), deleted_to=2),
        set(),
    ),
    "a row lost beside the purge": (
        WHOLE.purged(1, 2).without_rows(3),
        {
            ("tag_pid_sequence_nr_lost_tail", "a", 0, 3, 4),
        },
    ),
    "head lost with its events": (
        WHOLE.purged(1, 2).without_events(1, 2),
        {
            ("sequence_nr_missing_head", "", 3, 1, 3),
            ("tag_pid_sequence_nr_missing_head", "a", 3, 1, 4),
            ("tag_pid_sequence_nr_missing_head", "b", 2, 1, 5),
        },
    ),
    "wholly purged tag": (History.whole((1, "a"), (2, "a"), (4, "")).purged(1, 2), set()),
    "purged in the middle, since clocks disagreed": (
        History.whole((3, "a"), (2, "a"), (4, "a")).purged(1, 2),
        set(),
    ),
    "gap later than the purge, below a deletion": (
        replace(
            History.whole((3, "a"), (3, "a"), (4, "a")).without_rows(2).without_events(1, 2),
            deleted_to=2,
        ),
        {("tag_pid_sequence_nr_gap", "a", 3, 2, 4)},
    ),
}


@pytest.fixture(scope="module")
def untouched(spark: SparkSession) -> dict[str, set[Found]]:
    histories = {name: history for name, (history, _) in UNTOUCHED.items()}
    return found_by_spark(spark, histories, Removed(), PendingTagWrites(), DAYS)


@pytest.fixture(scope="module")
def after_a_purge(spark: SparkSession) -> dict[str, set[Found]]:
    histories = {name: history for name, (history, _) in AFTER_A_PURGE.items()}
    return found_by_spark(spark, histories, Removed(PURGED), PendingTagWrites(), DAYS)


@pytest.mark.parametrize("name", UNTOUCHED)
def test_finds_exactly_what_is_wrong(name: str, untouched: dict[str, set[Found]]) -> None:
    assert untouched[name] == UNTOUCHED[name][1]


@pytest.mark.parametrize("name", AFTER_A_PURGE)
def test_knows_what_was_purged(name: str, after_a_purge: dict[str, set[Found]]) -> None:
    assert after_a_purge[name] == AFTER_A_PURGE[name][1]


def test_every_check_has_a_case() -> None:
    cases = [*UNTOUCHED.values(), *AFTER_A_PURGE.values()]
    found = {finding[0] for _, expected in cases for finding in expected}
    # Of messages that count as deleted, see test_reconciliation.
    assert found == {*OF_CONTINUITY} - {DELETED_TO_AHEAD.name}


def test_reports_only_the_asked_buckets_but_knows_the_history_around_them(
    spark: SparkSession,
) -> None:
    histories = {
        "whole": WHOLE,
        "gaps": WHOLE.without_events(2, 4),
        "scanned": replace(WHOLE, scanned_to=7),
    }

    findings = found_by_spark(spark, histories, Removed(), PendingTagWrites(), [3, 4])

    assert findings["whole"] == set()
    assert findings["gaps"] == {("sequence_nr_gap", "", 3, 2, 3)}
    # This history has an event after the newest bucket asked for, where no lost tail can be.
    assert findings["scanned"] == set()


def test_rows_older_than_the_time_to_live_are_no_findings(spark: SparkSession) -> None:
    histories = {"expired": WHOLE.purged(1, 2), "lost": WHOLE.purged(1, 2, 4)}

    findings = found_by_spark(spark, histories, Removed(expired_before=3), PendingTagWrites(), DAYS)

    assert findings["expired"] == set()
    assert findings["lost"] == {
        ("tag_pid_sequence_nr_lost_tail", "a", 0, 3, 4),
    }


def test_a_row_that_is_yet_to_come_is_no_gap_before_its_successors(spark: SparkSession) -> None:
    ahead = History.whole((2, "a"), (6, "a"), (3, "a"), (4, "a"))
    without_two = replace(ahead, rows=tuple(row for row in ahead.rows if row.event != 2))
    histories = {
        "one is to come": without_two,
        "and another is lost": without_two.without_rows(3),
    }

    open_bucket = found_by_spark(
        spark, histories, Removed(), PendingTagWrites(frozenset({6})), range(1, 6)
    )
    not_reached = found_by_spark(
        spark, histories, Removed(), PendingTagWrites(since=6), range(1, 6)
    )
    done = found_by_spark(spark, histories, Removed(), PendingTagWrites(since=7), range(1, 6))

    assert open_bucket["one is to come"] == not_reached["one is to come"] == set()
    lost = {("tag_pid_sequence_nr_gap", "a", 4, 2, 4)}
    assert open_bucket["and another is lost"] == not_reached["and another is lost"] == lost
    assert done["one is to come"] == {("tag_pid_sequence_nr_gap", "a", 3, 2, 3)}


def whole() -> st.SearchStrategy[History]:
    """Return a strategy of histories whose clocks may go back."""
    events = st.tuples(st.integers(1, 6), st.sampled_from(["", "a", "b", "ab"]))
    return st.lists(events, max_size=6).map(lambda drawn: History.whole(*drawn))


@st.composite
def damaged(draw: st.DrawFn, history: History) -> History:
    """Return the history with a few rows missing, doubled or ahead of the rest."""
    days = st.integers(1, 6)
    history = history.purged(*draw(st.sets(st.sampled_from(sorted(PURGED)))))
    numbers = st.sets(st.integers(1, 6), max_size=2)
    history = history.without_events(*draw(numbers)).without_rows(*draw(numbers))
    copies = draw(st.lists(st.sampled_from(history.rows), max_size=1)) if history.rows else []
    changed = [
        replace(row, number=row.number + draw(st.integers(0, 2)), bucket=draw(days), copy=1)
        for row in copies
    ]
    doubled = draw(st.lists(st.sampled_from(history.events), max_size=1)) if history.events else []
    events = (*history.events, *(replace(e, bucket=draw(days), copy=1) for e in doubled))
    misplaced = draw(st.none() | st.integers(1, 6))
    return replace(
        history,
        events=tuple(replace(event, is_misplaced=event.number == misplaced) for event in events),
        rows=(*history.rows, *changed),
        scanned_to=draw(st.none() | st.integers(1, 8)),
        deleted_to=draw(st.none() | st.integers(1, 5)),
        is_listed=draw(st.booleans()),
    )


@pytest.mark.parametrize(
    ("removed", "pending"),
    [
        (PURGED, OWED),
        pytest.param(frozenset(), frozenset(), marks=pytest.mark.soak),
        pytest.param(PURGED, frozenset(), marks=pytest.mark.soak),
        pytest.param(frozenset(), OWED, marks=pytest.mark.soak),
    ],
)
def test_agrees_with_the_model_by_loops(
    spark: SparkSession, examples: Examples, removed: frozenset[int], pending: frozenset[int]
) -> None:
    drawn = examples(whole().flatmap(damaged), 150)
    by_id = {f"id-{place}": history for place, history in enumerate(drawn)}

    findings = found_by_spark(spark, by_id, Removed(removed), PendingTagWrites(pending), DAYS)

    for persistence_id, history in by_id.items():
        assert findings[persistence_id] == expected_findings(
            history, removed, pending, max(DAYS)
        ), history
