"""The operations check and repair over plain histories: findings and changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from tests.unit.conftest import Examples
from tests.unit.project.stored_history_frames import (
    BOUNDS,
    Finding,
    bounds_of_buckets,
    findings_of,
    keys_of,
)
from tests.unit.project.stored_history_model import (
    HOUR,
    NOW_MS,
    START_MS,
    Event,
    History,
    Journal,
    Progress,
    Row,
    as_repaired,
    broken_history,
    damaged_history,
    moved,
)
from tests.unit.reconcile.repair_in_memory import repaired
from tidemark.ledger.purged import Removed
from tidemark.partitioning.keys import BucketSize
from tidemark.validate.findings import checks
from tidemark.validate.findings.check import Repair
from tidemark.validate.tag_views.compare import compare, count_exempt
from tidemark.validate.tag_views.finding_kinds import OF_CONTINUITY
from tidemark.validate.tag_views.keys import once
from tidemark.validate.tag_views.prefilter import SuspectIds
from tidemark.window import Window, from_millis

Found = tuple[str, str, int | None, int | None, int | None]
"""(kind, tag, sequence nr, number, expected number)."""

WHOLE = History.whole((1, "a"), (2, "ab"), (3, ""), (4, "a"), (5, "b"))
"""Tag a has the numbers 1, 2, 3 on events 1, 2, 4; tag b has 1, 2 on events 2, 5."""
A1, A2, A3, B1, B2 = (WHOLE.row(*key) for key in [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)])
NEVER_WRITTEN = Event(9, 9, "a")
HEADLESS = WHOLE.deleted(to=2)
"""Events 3, 4, 5 are left: a has number 3 on 4, b has 2 on 5."""
YOUNG = Event(6, (NOW_MS + 1 - START_MS) / HOUR, "ab")
FRESH = Event(6, (NOW_MS - 10_000 - START_MS) / HOUR, "a")
ON_THEIR_WAY = {
    "event on its way",
    "row of an event on its way",
    "progress on its way",
    "progress that is already there",
}

CASES: dict[str, tuple[History, set[Found]]] = {
    "whole": (WHOLE, set()),
    "nothing stored": (History(), set()),
    "row missing": (WHOLE.without_rows(A2), {("untagged_event", "a", 2, None, 2)}),
    "row of an event that does not exist": (
        WHOLE.with_rows(Row("a", 4, NEVER_WRITTEN, NEVER_WRITTEN.time_bucket)),
        {("extra_row", "a", 9, 4, None)},
    ),
    "row under a tag that the event does not carry": (
        WHOLE.with_rows(A1._replace(tag="c")),
        {("extra_row", "c", 1, 1, None)},
    ),
    "row of an event that carries no tag": (
        WHOLE.with_rows(Row("c", 1, *((event := Event(3, 3)), event.time_bucket))),
        {("progress_missing", "c", 3, None, 1)},
    ),
    "tags of older events in their rows alone": (
        replace(
            WHOLE,
            events=frozenset(
                event._replace(tags="") if event.number < 4 else event for event in WHOLE.events
            ),
        ),
        set(),
    ),
    "row doubled by a second numbering": (
        WHOLE.with_rows(A3._replace(number=7)),
        {("doubled_row", "a", 4, 7, 3)},
    ),
    "row doubled by another bucket size": (
        WHOLE.with_rows(moved(A3, -4)),
        {("doubled_row", "a", 4, 3, 3)},
    ),
    "number wrong": (
        WHOLE.without_rows(A3).with_rows(A3._replace(number=5)),
        {("wrong_number", "a", 4, 5, 3)},
    ),
    "two wrong numbers and no right one": (
        WHOLE.without_rows(A3).with_rows(A3._replace(number=5), A3._replace(number=6)),
        {("wrong_number", "a", 4, 5, 3), ("doubled_row", "a", 4, 6, 3)},
    ),
    "time bucket wrong": (
        WHOLE.without_rows(A3).with_rows(moved(A3, 1)),
        {("wrong_time_bucket", "a", 4, 3, 3)},
    ),
    "progress lost": (
        replace(WHOLE, progress={}),
        {("progress_missing", "a", 4, None, 3), ("progress_missing", "b", 5, None, 2)},
    ),
    "progress behind": (
        WHOLE.with_progress("a", Progress(2, 2, A2.event.timestamp)),
        {("progress_behind", "a", 2, 2, 3)},
    ),
    "progress ahead": (
        WHOLE.with_progress("a", Progress(9, 4, NEVER_WRITTEN.timestamp)),
        {("progress_ahead", "a", 9, 4, 3)},
    ),
    "progress ahead in its number only": (
        WHOLE.with_progress("a", Progress(4, 9, A3.event.timestamp)),
        {("progress_ahead", "a", 4, 9, 3)},
    ),
    "progress with a lower number": (
        WHOLE.with_progress("a", Progress(4, 1, A3.event.timestamp)),
        {("progress_wrong", "a", 4, 1, 3)},
    ),
    "progress with another event's offset": (
        WHOLE.with_progress("a", Progress(4, 3, A1.event.timestamp)),
        {("progress_wrong", "a", 4, 3, 3)},
    ),
    "progress of a tag that the id never had": (
        WHOLE.with_progress("c", Progress(4, 1, A3.event.timestamp)),
        {("progress_ahead", "c", 4, 1, None)},
    ),
    "scanning ahead": (replace(WHOLE, scanned_to=8), {("scanning_ahead", "", 8, None, None)}),
    "removed for good, with nothing but tags and scanning left": (
        replace(WHOLE, events=frozenset()),
        set(),
    ),
    "removed for good without progress": (
        replace(WHOLE, events=frozenset(), progress={}),
        set(),
    ),
    "removed for good, untagged": (History(scanned_to=3), set()),
    "scanning behind": (replace(WHOLE, scanned_to=1), set()),
    "scanning absent": (replace(WHOLE, scanned_to=None), set()),
    "scanning at the end of what was deleted": (
        replace(WHOLE.deleted(to=5), scanned_to=5),
        set(),
    ),
    "view and progress truncated, scanning kept": (
        replace(WHOLE, rows=frozenset(), progress={}),
        {
            *(("untagged_event", r.tag, r.event.number, None, r.number) for r in WHOLE.rows),
            ("progress_missing", "a", 4, None, 3),
            ("progress_missing", "b", 5, None, 2),
            ("scanning_ahead", "a", 5, None, None),
            ("scanning_ahead", "b", 5, None, None),
        },
    ),
    "view truncated, progress kept": (
        replace(WHOLE, rows=frozenset()),
        {("untagged_event", r.tag, r.event.number, None, r.number) for r in WHOLE.rows},
    ),
    "event without a payload": (
        History(
            frozenset({Event(1, 1, "a"), Event(2, 2, "a", "no payload"), Event(3, 3, "a")}),
            frozenset({A1, Row("a", 2, Event(3, 3, "a"), Event(3, 3).time_bucket)}),
            {"a": Progress(3, 2, Event(3, 3).timestamp)},
        ),
        {("unwritable_event", "", 2, None, None)},
    ),
    "event on its way": (replace(WHOLE, events=WHOLE.events | {YOUNG}), set()),
    "row of an event on its way": (
        WHOLE.with_rows(Row("b", 3, YOUNG, YOUNG.time_bucket)),
        set(),
    ),
    "progress on its way": (
        replace(WHOLE, events=WHOLE.events | {FRESH}).with_rows(
            Row("a", 4, FRESH, FRESH.time_bucket)
        ),
        set(),
    ),
    "progress that is already there": (
        replace(WHOLE, events=WHOLE.events | {FRESH})
        .with_rows(Row("a", 4, FRESH, FRESH.time_bucket))
        .with_progress("a", Progress(6, 4, FRESH.timestamp)),
        set(),
    ),
    "front deleted": (HEADLESS, set()),
    "front deleted and its rows gone": (HEADLESS.without_rows(A1, A2, B1), set()),
    "front deleted, row missing": (
        HEADLESS.without_rows(A3),
        {("untagged_event", "a", 4, None, 3)},
    ),
    "front deleted, restarted from one beside the old rows": (
        HEADLESS.without_rows(A3)
        .with_rows(A3._replace(number=1))
        .with_progress("a", Progress(4, 1, A3.event.timestamp)),
        {("wrong_number", "a", 4, 1, 3), ("progress_wrong", "a", 4, 1, 3)},
    ),
    "front deleted, restarted from one everywhere": (
        HEADLESS.without_rows(A1, A2, A3)
        .with_rows(A3._replace(number=1))
        .with_progress("a", Progress(4, 1, A3.event.timestamp)),
        set(),
    ),
    "front deleted, all rows lost: progress tells the number": (
        replace(HEADLESS, rows=frozenset()),
        {("untagged_event", "a", 4, None, 3), ("untagged_event", "b", 5, None, 2)},
    ),
    "front deleted, all rows and progress lost": (
        replace(HEADLESS, rows=frozenset(), progress={}, scanned_to=None),
        {
            ("untagged_event", "a", 4, None, 1),
            ("untagged_event", "b", 5, None, 1),
            ("progress_missing", "a", 4, None, 1),
            ("progress_missing", "b", 5, None, 1),
        },
    ),
    "all deleted": (WHOLE.deleted(to=5), set()),
    "all deleted, progress lost": (
        replace(WHOLE.deleted(to=5), progress={}),
        {("progress_missing", "a", 4, None, 3), ("progress_missing", "b", 5, None, 2)},
    ),
    "all deleted, progress behind": (
        WHOLE.deleted(to=5).with_progress("a", Progress(2, 2, A2.event.timestamp)),
        {("progress_behind", "a", 2, 2, 3)},
    ),
    "all deleted, rows gone": (replace(WHOLE.deleted(to=5), rows=frozenset()), set()),
    "clocks went back: sequence nr order decides": (
        History.whole((5, "a"), (4, "a"), (6, "a")),
        set(),
    ),
    "messages lost in the middle": (
        replace(WHOLE, events=frozenset(e for e in WHOLE.events if e.number != 3)),
        {("sequence_nr_gap", "", 4, None, None)},
    ),
    "messages of two writers": (
        replace(WHOLE, events=WHOLE.events | {Event(3, 3.5)}),
        {("sequence_nr_duplicate", "", 3, None, None)},
    ),
    "listed, and nothing but tags and scanning left": (
        replace(WHOLE, events=frozenset(), is_listed=True),
        {("sequence_nr_lost_tail", "", 0, None, None)},
    ),
    "a row lost between rows of deleted events": (
        WHOLE.deleted(to=4).without_rows(A2),
        {("tag_pid_sequence_nr_gap", "a", None, 3, 2)},
    ),
    "two rows of deleted events with one number": (
        WHOLE.deleted(to=4).without_rows(A2).with_rows(A2._replace(number=3)),
        {
            ("tag_pid_sequence_nr_gap", "a", None, 3, 2),
            ("tag_pid_sequence_nr_duplicate", "a", None, 3, 3),
        },
    ),
    "a deleted_to beyond the last event": (
        replace(WHOLE, deleted_to=9),
        {("deleted_to_ahead", "", 5, None, None)},
    ),
    "a deleted event that a crash has left in messages, without its row": (
        replace(WHOLE, deleted_to=2).without_rows(A2),
        {("tag_pid_sequence_nr_gap", "a", None, 3, 2)},
    ),
}


def seen(findings: list[Finding], pid: str) -> set[Found]:
    of_id = [finding for finding in findings if finding["persistence_id"] == pid]
    result = {_found(finding) for finding in of_id}
    assert len(result) == len(of_id)
    return result


def _found(finding: Finding) -> Found:
    names = ("sequence_nr", "tag_pid_sequence_nr", "expected_tag_pid_sequence_nr")
    numbers = [finding[name] for name in names]
    if finding["check_name"].startswith("tag_pid_"):
        numbers = [None, finding["number"], finding["expected"]]
    elif finding["check_name"] in OF_CONTINUITY:
        numbers = [finding["number"], None, None]
    return (finding["check_name"], finding["tag"], *numbers)


class Repaired(NamedTuple):
    """What is found in a journal, what repair makes of it, and what is found then."""

    before: list[Finding]
    journal: Journal
    after: list[Finding]


def lost_payloads() -> Journal:
    whole = History.whole((1, "a"), (2, "ab"), (3, "a"))
    emptied = {event._replace(cause="no payload") for event in whole.events if event.number == 2}
    others = {event for event in whole.events if event.number != 2}
    return {
        "with its rows": replace(whole, events=frozenset(others | emptied)),
        "with one of them": replace(
            whole.without_rows(whole.row("b", 1)).with_progress("b", None),
            events=frozenset(others | emptied),
        ),
    }


def lost_events() -> Journal:
    whole = History.whole((1, "a"), (2, "ab"), (3, ""), (4, "a"), (5, ""))

    def without(history: History, *numbers: int) -> History:
        left = frozenset(event for event in history.events if event.number not in numbers)
        return replace(history, events=left)

    return {
        "middle": without(whole, 2),
        "first": without(whole, 1),
        "the last of its tag": without(whole, 4),
        "above a deletion": without(whole.deleted(1), 2),
        "with a row less": without(whole, 2).without_rows(whole.row("a", 2)),
        # Progress and scanning tell that there was such an event.
        "behind the last": without(whole, 4, 5),
        "behind the last, with a row less": without(
            History.whole((1, "a"), (2, "a"), (3, "a"), (4, "a")), 3, 4
        ).without_rows(History.whole((1, "a"), (2, "a"), (3, "a")).row("a", 3)),
        "behind a deletion": without(whole.deleted(2), 3, 4, 5),
        "behind all that is known": replace(
            without(whole, 4, 5),
            progress={
                "a": Progress(2, 2, whole.row("a", 2).event.timestamp),
                "b": Progress(2, 1, whole.row("b", 1).event.timestamp),
            },
            scanned_to=3,
        ),
        "deleted": whole.deleted(2),
    }


@pytest.fixture(scope="module")
def all_cases(spark: SparkSession) -> Repaired:
    """Return what one comparison finds of all cases, each a persistence id, and after repair."""
    cases: Journal = {name: history for name, (history, _) in CASES.items()}
    journal = cases | lost_payloads() | lost_events()
    before = findings_of(spark, journal)
    after, _ = repaired(spark, journal, before)
    return Repaired(before, after, findings_of(spark, after))


@pytest.mark.parametrize("case", CASES)
def test_damage_is_found_and_repaired(all_cases: Repaired, case: str) -> None:
    history, found = CASES[case]
    assert seen(all_cases.before, case) == found
    assert seen(all_cases.after, case) == {fact for fact in found if is_left(fact)}
    right = history if case in ON_THEIR_WAY else as_repaired(history)
    assert all_cases.journal[case] == right


def is_left(found: Found) -> bool:
    """Return whether no repair puts it right."""
    return found[0] in (*OF_CONTINUITY, "unwritable_event")


def test_rows_that_were_removed_on_purpose_are_not_missing(spark: SparkSession) -> None:
    journal = {"p": replace(WHOLE, rows=frozenset())}
    purged = frozenset({A3.time_bucket})
    bounds = replace(BOUNDS, emptied_buckets=purged, removed=Removed(purged))
    assert seen(findings_of(spark, journal, bounds), "p") == {
        ("untagged_event", "a", 1, None, 1),
        ("untagged_event", "a", 2, None, 2),
        ("untagged_event", "b", 2, None, 1),
        ("untagged_event", "b", 5, None, 2),
    }


def test_row_of_a_lost_payload_stays_and_keeps_its_number(
    spark: SparkSession, all_cases: Repaired
) -> None:
    journal = lost_payloads()
    found = [row for row in all_cases.before if row["persistence_id"] in journal]
    assert {(row["persistence_id"], row["check_name"], row["sequence_nr"]) for row in found} == {
        ("with its rows", "null_payload", 2),
        ("with one of them", "null_payload", 2),
    }
    assert repaired(spark, journal, found) == (journal, 0)


def test_row_of_a_lost_event_stays_and_keeps_its_number(
    all_cases: Repaired,
) -> None:
    journal = lost_events()
    for pid, history in journal.items():
        assert all_cases.journal[pid] == as_repaired(history)
    found = [row for row in all_cases.before if row["persistence_id"] in journal]
    kinds = {
        (row["persistence_id"], row["check_name"], row["tag"], row["sequence_nr"] or row["number"])
        for row in found
    }
    assert kinds == {
        ("middle", "sequence_nr_gap", "", 3),
        ("first", "sequence_nr_missing_head", "", 2),
        ("the last of its tag", "sequence_nr_gap", "", 5),
        ("above a deletion", "sequence_nr_missing_head", "", 3),
        # Its number stays free, as the rows behind it and progress say.
        ("with a row less", "sequence_nr_gap", "", 3),
        ("with a row less", "tag_pid_sequence_nr_gap", "a", 4),
        ("behind the last", "sequence_nr_lost_tail", "", 3),
        ("behind the last, with a row less", "sequence_nr_lost_tail", "", 2),
        ("behind the last, with a row less", "tag_pid_sequence_nr_gap", "a", 4),
        ("behind a deletion", "sequence_nr_lost_tail", "", 2),
        # There may never have been such an event.
        ("behind all that is known", "extra_row", "a", 4),
    }


def test_what_a_killed_repair_left_of_a_lost_event_is_put_right(spark: SparkSession) -> None:
    """It gave the row its number, and was killed before it deleted the row with the wrong one."""
    whole = History.whole((0, "a"), (1, "a"), (2, "a"), (3, "a"))
    right = whole.row("a", 3)
    journal = {"p": whole.without_events(3).with_rows(right._replace(number=7))}
    found = [f for f in findings_of(spark, journal) if f["check_name"] not in OF_CONTINUITY]
    assert [(f["check_name"], f["tag_pid_sequence_nr"]) for f in found] == [
        (checks.DOUBLED_ROW.name, 7)
    ]
    mended, _ = repaired(spark, journal, found)
    assert mended["p"].rows == whole.rows


def test_rows_that_need_not_be_there_are_told_apart_from_the_findings(spark: SparkSession) -> None:
    keys = keys_of(spark, {"p": replace(WHOLE, rows=frozenset())})
    expired = replace(BOUNDS, removed=Removed(expired_before=A3.time_bucket))
    suspects = SuspectIds.of(keys, expired.target_partition_size, once)
    compared = compare(keys, suspects, expired, once)
    findings = [row.asDict() for row in compared.findings.collect()]
    assert seen(findings, "p") == {
        ("untagged_event", "a", 4, None, 3),
        ("untagged_event", "b", 5, None, 2),
    }
    assert count_exempt(compared.absent, expired) == 3


def test_window_limits_what_is_told(spark: SparkSession) -> None:
    damaged = replace(WHOLE, rows=frozenset({moved(A1, 3)}), progress={})
    start = from_millis(A3.time_bucket)
    bounds = replace(BOUNDS, window=Window(start, from_millis(A3.time_bucket + HOUR)))
    # The last event of tag b lies behind the window, and so would its progress. The row of event
    # 2, which lies before it, is only seen to be missing.
    assert seen(findings_of(spark, {"p": damaged}, bounds), "p") == {
        ("untagged_event", "a", 4, None, 3),
        ("wrong_time_bucket", "a", 1, 1, 1),
        ("progress_missing", "a", 4, None, 3),
        ("tag_pid_sequence_nr_gap", "a", None, 3, 2),
    }


def test_repair_is_the_smallest_change_that_makes_check_clean(
    spark: SparkSession, examples: Examples
) -> None:
    histories = examples(damaged_history(), 100)
    undamaged = {f"whole {place}": whole for place, (whole, _) in enumerate(histories)}
    damaged = {f"damaged {place}": history for place, (_, history) in enumerate(histories)}
    findings = findings_of(spark, undamaged | damaged)
    assert {history["persistence_id"] for history in findings} <= set(damaged)
    after, changes = repaired(spark, damaged, findings)
    left = findings_of(spark, after)
    for pid in damaged:
        # What is left has been told before.
        told = {found for found in seen(findings, pid) if is_left(found)}
        assert (pid, damaged[pid], seen(left, pid)) == (pid, damaged[pid], told)
    assert changes == sum(len(damaged[pid].rows ^ after[pid].rows) for pid in damaged)
    for (whole, history), pid in zip(histories, damaged, strict=True):
        assert (history, after[pid]) == (history, as_repaired(history))
        if whole.deleted_to is None:
            assert (pid, after[pid].rows) == (pid, whole.rows)
            assert (pid, after[pid].progress) == (pid, whole.progress)
        else:
            assert_true_but_for_a_shift(whole, history, after[pid])


def assert_true_but_for_a_shift(whole: History, damaged: History, after: History) -> None:
    """Check what is left of a history whose front was deleted, so that nobody can count it.

    Rows of deleted events stay as they are. The others are the true ones, but for one number that
    may be added to those of a tag: 0 if progress and its row are still right.
    """
    deleted_to = whole.deleted_to or 0
    for tag in {row.tag for row in damaged.rows | whole.rows}:
        of_deleted, others = (
            {row for row in history.rows if row.tag == tag and row.event.number <= deleted_to}
            for history in (damaged, after)
        )
        assert of_deleted == others, damaged
        true, present = (
            {
                row.event.number: row
                for row in history.rows
                if row.tag == tag and row.event.number > deleted_to
            }
            for history in (whole, after)
        )
        shifts = {row.number - true[number].number for number, row in present.items()}
        assert present.keys() == true.keys(), damaged
        assert len(shifts) <= 1, damaged
        for number, row in present.items():
            assert row._replace(number=true[number].number) == true[number], damaged
        is_confirmed = (
            bool(true)
            and true[max(true)] in damaged.rows
            and damaged.progress.get(tag) == whole.progress[tag]
        )
        assert shifts <= {0} or not is_confirmed, damaged


HOURS = [START_MS + hour * HOUR for hour in range(8)]


REMOVED = Removed(frozenset(HOURS[1:3]))
WINDOW = Window(from_millis(HOURS[2]), from_millis(HOURS[4]))


@pytest.mark.parametrize(
    ("removed", "window"),
    [
        (REMOVED, None),
        pytest.param(Removed(), WINDOW, marks=pytest.mark.long),
        pytest.param(Removed(), None, marks=pytest.mark.soak),
        pytest.param(REMOVED, WINDOW, marks=pytest.mark.soak),
        pytest.param(Removed(expired_before=HOURS[2]), None, marks=pytest.mark.soak),
        pytest.param(Removed(expired_before=HOURS[2]), WINDOW, marks=pytest.mark.soak),
    ],
)
def test_whatever_validate_finds_check_finds(
    spark: SparkSession, examples: Examples, removed: Removed, window: Window | None
) -> None:
    histories = examples(broken_history(), 100)
    journal = {f"id {place}": history for place, history in enumerate(histories)}
    bounds = replace(BOUNDS, removed=removed, emptied_buckets=removed.buckets, window=window)
    buckets = list(window.buckets(BucketSize.HOUR)) if window else [*HOURS, BOUNDS.last_bucket]
    of_buckets = bounds_of_buckets(buckets, bounds)

    red = findings_of(spark, journal, of_buckets)
    checked = findings_of(spark, journal, replace(bounds, last_bucket=buckets[-1]))
    anywhere = findings_of(spark, journal, replace(bounds, window=None)) if window else []
    elsewhere = {
        (found["persistence_id"], found["tag"])
        for found in anywhere
        if found["time_bucket"] not in buckets
    }

    for pid, history in journal.items():
        mine, its = (_facts(found, pid, buckets) for found in (red, checked))
        if window is None:
            assert (history, mine) == (history, its)
        else:
            # check compares progress with the last event, and validate with the last of its
            # buckets; where a tag goes on behind the window, check tells it there.
            later = {tag for e in history.events if e.time_bucket > buckets[-1] for tag in e.tags}
            later |= {row.tag for row in history.rows if row.time_bucket > buckets[-1]}
            told = {fact for fact in mine if not _is_progress_of(dict(fact), later)}
            # A number that lacks here may be on a row outside of the window: check, which knows
            # the number of each event, tells it there.
            told = {fact for fact in told if not _is_number_of(dict(fact), elsewhere)}
            assert (history, told - its) == (history, set())


def _is_progress_of(fact: dict[str, str], tags: set[str]) -> bool:
    name = fact["check_name"]
    is_of = name.startswith("progress_") or name == checks.TAG_PID_SEQUENCE_NR_LOST_TAIL.name
    return is_of and fact["tag"] in tags


def _is_number_of(fact: dict[str, str], series: set[tuple[str, str]]) -> bool:
    """Tell whether check may say so of another row or event of the series, which it looks at."""
    if fact["check_name"] == checks.SCANNING_AHEAD.name:
        return fact["persistence_id"] in {pid for pid, _ in series}
    is_number = fact["check_name"] in checks.repaired_by(Repair.OTHER_ROWS)
    return is_number and (fact["persistence_id"], fact["tag"]) in series


def _facts(findings: list[Finding], pid: str, buckets: list[int]) -> set[tuple[Any, ...]]:
    return {
        tuple(sorted((name, str(value)) for name, value in finding.items()))
        for finding in findings
        if finding["persistence_id"] == pid and finding["time_bucket"] in buckets
    }
