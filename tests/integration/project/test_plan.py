"""Plans that are shown, kept and run; runs of some pieces only; the exact lag."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.project.projections import (
    HOUR_MS,
    LATEST,
    LATEST_TABLE,
    START_MS,
    TOTALS,
    TOTALS_TABLE,
    Projections,
    event,
    totals,
)
from tests.integration.support import Journal
from tests.integration.tag_write.tags_and_messages import pieces
from tidemark.partitioning.keys import slice_of

WINDOW = ("--window-start", "2024-03-01T00:00Z", "--window-end", "2024-03-01T04:00Z")
RAISES = TOTALS.replace("count(*)", "count(CASE WHEN amount < 0 THEN raise_error('boom') END)")


@pytest.fixture
def projections(journal: Journal, tmp_path: Path) -> Projections:
    """Return projections by tags and by messages, with events in four hours, two validated."""
    two = Projections(journal, tmp_path)
    two.define(TOTALS, TOTALS_TABLE)
    two.define(LATEST, LATEST_TABLE, file="two.sql")
    two.insert(*HISTORY)
    two.validated(0, 1)
    return two


HISTORY = tuple(
    event("p|1", number + 1, number + 0.1, "red", kind="in", amount=number) for number in range(4)
)


def executed(projections: Projections, run_id: str) -> set[tuple[str, int]]:
    """Return projection and hour of the pieces that a run has done."""
    return {
        (row["subject"].partition("/")[2], (row["time_bucket"] - START_MS) // HOUR_MS)
        for row in projections.journal.own_rows("piece")
        if row["application"] == "project" and row["run_id"] == run_id and row["state"] == "done"
    }


def test_only_the_approved_plan_is_run_and_none_after_a_change(projections: Projections) -> None:
    projections.validated(0, messages_checked=12, tag_rows_checked=34)

    def approval(*options: str) -> str:
        planned = projections.manage("plan", *WINDOW, *options)
        assert planned.status == 0, planned.stderr
        text: str = planned.report["details"]["approval"]
        assert f"approval: {text}" in planned.stdout
        return text

    def refuse(approved: str, *options: str) -> None:
        before = pieces(projections)
        result = projections.manage(*WINDOW, *options, "--approved", approved)
        assert result.status == 2
        [line] = result.error_lines
        assert "is out of date, or was made with other options (--approved); nothing was" in line
        assert pieces(projections) == before

    planned = projections.manage("plan", *WINDOW)
    assert "starting Spark" not in planned.stderr
    assert planned.report["pieces"] == {"planned": 8, "done": 0, "held": 4, "failed": 0}
    assert planned.report["counts"] == {"rows_estimated": 46}
    lines = [line.strip() for line in planned.stdout.splitlines()]
    assert "latest: 4 new; about 12 rows and ? in 1, by the ledger" in lines
    assert "totals  2024-03-01 00:00  new, at most 34 rows" in lines
    assert "latest  2024-03-01 01:00  new, ? rows" in lines
    assert "latest  2024-03-01 02:00  new, held: not validated" in lines
    assert pieces(projections) == {}

    before = approval()
    refuse(before, "--projection", "totals")
    refuse(before, "--force")
    refuse(approval("--max-pieces", "1"))
    ran = projections.manage(*WINDOW, "--approved", before, "--run-id", "r1")
    assert ran.status == 0, ran.stderr
    assert executed(projections, "r1") == {
        (name, hour) for name in ("latest", "totals") for hour in (0, 1)
    }
    refuse(before)

    # A time bucket that becomes ready changes the plan.
    held = approval()
    projections.validated(2)
    refuse(held)
    projections.validated(3)
    ready = approval()
    ids = ("--persistence-id", "p|1")
    assert projections.manage("skip", "latest", *ids, "--apply").status == 0
    refuse(ready)
    skipped = approval()
    projections.define(LATEST.replace("version: 1", "version: 2"), file="two.sql")
    refuse(skipped)
    [line] = projections.manage(*WINDOW, "--approved", "yes").error_lines
    assert "not the approval of a plan: 'yes' (--approved)" in line


@pytest.mark.long
def test_red_time_bucket_that_was_processed_before_is_said(projections: Projections) -> None:
    """A run is green where validate is red, since what it made before stands: it says so."""
    first = projections.run(0, 2)
    assert (first.status, "validate has failed" in first.stdout) == (0, False)
    projections.invalid(1)
    again = projections.run(0, 2)
    assert (again.status, again.report["state"]) == (0, "nothing-to-do")
    said = "validate has failed 1 time bucket of the window, the first is 2024-03-01T01:00:00Z"
    assert said in again.stdout
    # Another window has nothing to do with it.
    assert "validate has failed" not in projections.run(0, 1).stdout


@pytest.mark.long
def test_runs_of_a_few_pieces_come_to_the_end_and_a_failed_one_keeps_its_own_bounds(
    projections: Projections,
) -> None:
    """dbt #11423: a retry on another day must not touch another day."""
    projections.define(RAISES)
    projections.validated(2, 3)
    projections.insert(poison := event("q|1", 1, 1.5, "red", kind="in", amount=-1))
    only = ("--projection", "totals", "--max-pieces", "1")
    first = projections.run(0, 4, *only)
    assert first.report["pieces"] == {"planned": 4, "done": 1, "held": 0, "failed": 0}
    assert "totals: 1 bucket," in first.stdout
    assert "3 left for the next run" in first.stdout
    assert {hour: state for _, hour, state, _ in projections.states()} == {
        0: "done",
        1: "planned",
        2: "planned",
        3: "planned",
    }
    failed = projections.run(3, 4, *only)
    assert failed.report["pieces"] == {"planned": 3, "done": 0, "held": 0, "failed": 1}
    assert "boom" in failed.error_lines[0]
    good = event("q|1", 1, 1.5, "red", kind="in", amount=1)
    assert good.timestamp == poison.timestamp
    projections.journal.control.execute(
        f"UPDATE {projections.journal.keyspace}.tag_views SET event = ? WHERE tag_name = 'red'"
        " AND timebucket = ? AND timestamp = ? AND persistence_id = 'q|1'"
        " AND tag_pid_sequence_nr = 1",
        (good.payload, good.time_bucket, good.timestamp),
    )
    # The next run is a day later, with that day's window.
    projections.validated(27)
    retried = projections.run(27, 28, *only, "--run-id", "retry")
    assert retried.report["pieces"]["done"] == 1
    assert executed(projections, "retry") == {("totals", 1)}
    assert pieces(projections)["totals", 1] == ("done", "unfinished", 2)
    rest = projections.run(27, 28, "--projection", "totals")
    assert rest.report["pieces"] == {"planned": 3, "done": 3, "held": 0, "failed": 0}
    assert pieces(projections)["totals", 0] == ("done", "new", 1)
    expected = [row | {"n": 0} for row in totals([*HISTORY, good])]
    assert projections.journal.rows("totals") == sorted(
        expected, key=lambda row: str(sorted(row.items()))
    )

    projections.define(RAISES.replace("kind, count", "kind,  count"))
    some = projections.run(0, 4, *only)
    assert some.report["pieces"] == {"planned": 4, "done": 1, "held": 0, "failed": 0}
    # The rest is planned, whatever the next window.
    rest = projections.run(27, 28, "--projection", "totals", "--run-id", "rest")
    assert executed(projections, "rest") == {("totals", hour) for hour in (1, 2, 3, 27)}


def test_exact_lag_of_each_slice_equals_a_count(projections: Projections) -> None:
    assert projections.run(0, 2).report["pieces"]["done"] == 4
    behind = [
        event(f"m|{number}", item, 2 + number / 10 + item / 100, "red", kind="in", amount=1)
        for number in range(5)
        for item in range(1, number + 2)
    ]
    projections.insert(*behind, event("n|1", 1, 2.5, "green", kind="in", amount=1))
    # The tag view of this event is not written yet: only the progress knows it.
    unwritten = event("p|1", 5, 3.5, "red", kind="in", amount=1)
    projections.history.add(unwritten)
    projections.insert_progress(unwritten)
    expected = {
        "latest": {slice_of("p|1"): 2, slice_of("n|1"): 1},
        "totals": {slice_of("p|1"): 3},
    }
    for by_slice in expected.values():
        for number in range(5):
            place = slice_of(f"m|{number}")
            by_slice[place] = by_slice.get(place, 0) + number + 1
    result = projections.manage("status", "--exact", "--ranges", "1024")
    assert result.status == 0, result.stderr
    for said in result.report["details"]["projections"]:
        slices = {item["first"]: item for item in said["slices"]}
        assert {number: item["behind"] for number, item in slices.items()} == expected[said["name"]]
        assert said["behind"] == sum(expected[said["name"]].values())
        assert slices[slice_of("m|0")]["is_begun"] is False
        # Consumed to 01:06, the newest event is of 03:06.
        assert slices[slice_of("p|1")]["lag_ms"] == 2 * HOUR_MS
    assert "18 events behind in " in result.stdout
    some = projections.manage("status", "totals", "--exact", "--ranges", "1")
    assert (
        "slices    0..1023            18 behind  lag 2:00:00, and slices not begun" in some.stdout
    )
    assert projections.manage("status", "--ranges", "3").status == 2
