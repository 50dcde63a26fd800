"""Events that cannot be processed: what skips them, how many, and what a release makes of them."""

from __future__ import annotations

import pytest

from tests.integration.project.fold_books import TABLE as BOOKS_TABLE
from tests.integration.project.fold_books import define, fold
from tests.integration.project.projections import (
    LATEST,
    LATEST_TABLE,
    SOME_EVENTS,
    TOTALS,
    TOTALS_TABLE,
    Event,
    Projections,
    event,
)

SKIP = "on-error: skip\nevent:"
ODD = event("b|1", 1, 1.5, "red", kind="in", amount=7, odd="x")


def poison(pid: str, hours: float) -> Event:
    return Event(pid, 1, hours, payload=b"{")


def good(pid: str, hours: float) -> Event:
    return event(pid, 1, hours, kind="in", amount=1)


def test_an_event_that_cannot_be_read_fails_its_time_bucket_unless_skipping_is_stated(
    projections: Projections,
) -> None:
    projections.define(LATEST, LATEST_TABLE)
    projections.insert(good("a|1", 0.1), good("a|2", 1.1), poison("a|3", 1.2))
    projections.validated(0, 1)
    failed = projections.run(0, 2)
    assert failed.status == 1
    [line] = failed.error_lines
    assert "on-error is fail, and the event a|3 1 cannot be processed: not JSON" in line
    assert "write `on-error: skip`, with most-skipped as its limit" in line
    assert [state[1:3] for state in projections.states()] == [(0, "done"), (1, "failed")]

    # What is done stays done when the policy is stated.
    projections.define(LATEST.replace("event:", SKIP))
    skipped = projections.run(0, 2)
    assert skipped.status == 0, skipped.stderr
    assert skipped.report["pieces"]["done"] == 1
    assert skipped.report["counts"]["quarantined"] == 1
    assert {row["persistence_id"] for row in projections.journal.rows("latest")} == {"a|1", "a|2"}


def test_the_event_for_which_a_select_fails_is_named_or_skipped(projections: Projections) -> None:
    dividing = LATEST.replace("amount FROM", "int(10 / amount) AS amount FROM")
    projections.define(dividing, LATEST_TABLE)
    zero = event("a|3", 1, 1.2, kind="in", amount=0)
    projections.insert(good("a|1", 0.1), good("a|2", 1.1), zero, good("a|4", 1.3))
    projections.validated(0, 1)
    failed = projections.run(0, 2)
    assert failed.status == 1
    [line] = failed.error_lines
    assert "on-error is fail, and the event a|3 1 cannot be processed" in line
    assert "Division by zero" in line
    assert [state[1:3] for state in projections.states()] == [(0, "done"), (1, "failed")]

    projections.define(dividing.replace("event:", SKIP))
    skipped = projections.run(0, 2)
    assert skipped.status == 0, skipped.stderr
    assert skipped.report["counts"]["quarantined"] == 1
    rows = projections.journal.rows("latest")
    assert {row["persistence_id"] for row in rows} == {"a|1", "a|2", "a|4"}
    [letter] = projections.journal.own_rows("quarantine")
    assert (letter["persistence_id"], letter["event"]) == ("a|3", zero.payload)


def test_a_time_bucket_with_more_events_than_most_skipped_fails(projections: Projections) -> None:
    projections.define(LATEST.replace("event:", f"most-skipped: 50%\n{SKIP}"), LATEST_TABLE)
    projections.insert(
        *(good("a|1", 0.1), poison("a|2", 0.2)),
        *(good("b|1", 1.1), *(poison(f"b|{number}", 1.2) for number in range(2, 6))),
    )
    projections.validated(0, 1)
    failed = projections.run(0, 2)
    assert failed.status == 1
    [line] = failed.error_lines
    assert (
        "4 of 5 events of 2024-03-01 01:00 cannot be processed, and most-skipped is 50%:"
        " b|2 1, not JSON; b|3 1, not JSON; b|4 1, not JSON ("
    ) in line
    assert "correct the code or the events, or raise most-skipped" in line
    assert [state[1:3] for state in projections.states()] == [(0, "done"), (1, "failed")]
    assert {row["persistence_id"] for row in projections.journal.rows("latest")} == {"a|1"}


@pytest.mark.long
def test_events_that_a_fold_raises_for_count_for_most_skipped(projections: Projections) -> None:
    limited = fold().replace('mode="fold"', 'mode="fold", on_error="skip", most_skipped=1')
    define(projections, limited, BOOKS_TABLE)
    raising = [event(f"a|{number}", 1, number, kind="poison", amount=1) for number in (0, 1)]
    projections.insert(*raising, event("b|1", 1, 1.5, kind="poison", amount=1))
    projections.validated(0, 1)
    failed = projections.run(0, 2)
    assert failed.status == 1
    why = "2 of 2 events of 2024-03-01 01:00 cannot be processed, and most-skipped is 1: a|1 1, "
    assert why in failed.error_lines[0]
    assert [state[1:3] for state in projections.states()] == [(0, "done"), (1, "failed")]


@pytest.mark.long
def test_a_version_that_skipped_a_larger_share_than_the_live_one_is_not_promoted(
    projections: Projections,
) -> None:
    projections.define(TOTALS, TOTALS_TABLE)
    projections.insert(*SOME_EVENTS, ODD)
    projections.validated(0, 1)
    assert projections.run(0, 2).status == 0
    second = TOTALS.replace("version: 1", "version: 2").replace(" INT", " INT, odd INT")
    second = second.replace("event:", f"release: blue-green\n{SKIP}")
    projections.define(second)
    built = projections.run(0, 2)
    assert built.status == 3
    assert built.report["pieces"]["done"] == 2
    why = (
        "version 2 of totals is not promoted: it skipped 1 of 5 events, the live version 0 of 5"
        " events"
    )
    assert why in built.error_lines[0]
    assert "state a most-skipped that allows it" in built.error_lines[0]
    idle = projections.run(0, 2)
    assert (idle.status, idle.report["pieces"]["planned"]) == (3, 0)
    assert why in idle.error_lines[0]
    assert why in projections.manage("releases").stdout
    by_hand = projections.manage("promote", "totals", "--apply")
    assert by_hand.status == 3
    assert why in by_hand.error_lines[0]
    assert projections.journal.own_rows("projection_release") == []

    # Nothing is done again for the consent; a limit that the version exceeds is none.
    projections.define(second.replace("event:", "most-skipped: 10%\nevent:"))
    assert projections.run(0, 2).status == 3
    projections.define(second.replace("event:", "most-skipped: 50%\nevent:"))
    consented = projections.run(0, 2)
    assert consented.status == 0, consented.stderr
    assert consented.report["pieces"]["planned"] == 0
    assert "totals: version 2 is live now" in consented.stdout


@pytest.mark.long
def test_every_run_names_a_declared_field_that_is_null_in_all_of_its_events(
    projections: Projections,
) -> None:
    misspelt = TOTALS.replace("event: kind STRING", "event: kind STRING, knd STRING")
    projections.define(misspelt, TOTALS_TABLE)
    projections.insert(*SOME_EVENTS)
    projections.validated(0, 1)
    result = projections.run(0, 2)
    assert result.status == 0, result.stderr
    doubt = "is null in all 4 events of this run: is it spelt as in the payload?"
    assert f"totals: warning: the field knd {doubt}" in result.stdout
    assert f"the field kind {doubt}" not in result.stdout
