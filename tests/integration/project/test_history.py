"""A new projection begins with all the history there is, unless its definition says from when."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.project.projections import (
    LATEST,
    LATEST_TABLE,
    TOTALS,
    TOTALS_TABLE,
    Projections,
    event,
    totals,
)
from tests.integration.support import Journal

EVENTS = tuple(
    event(f"p|{number % 2}", number // 2 + 1, number + 0.1, "red", kind="in", amount=number)
    for number in range(6)
)


@pytest.fixture
def projections(journal: Journal, tmp_path: Path) -> Projections:
    return six_hours(journal, tmp_path)


def six_hours(journal: Journal, directory: Path) -> Projections:
    """Define projections by tags and by messages; six validated hours have an event each."""
    two = Projections(journal, directory)
    two.define(TOTALS, TOTALS_TABLE)
    two.define(LATEST, LATEST_TABLE, file="two.sql")
    two.insert(*EVENTS)
    two.validated(*range(6))
    return two


def done(projections: Projections, subject: str) -> list[int]:
    return [
        hour for name, hour, state, _ in projections.states() if (name, state) == (subject, "done")
    ]


def rows(projections: Projections, name: str) -> list[dict[str, object]]:
    return sorted(projections.journal.rows(name), key=lambda row: str(sorted(row.items())))


@pytest.mark.long
def test_first_run_over_the_last_hour_has_every_row(projections: Projections) -> None:
    """It ended with 53 of 211 rows and status 0 once."""
    status = projections.manage("status", "totals")
    assert "not begun: it begins with the first time bucket that there is" in status.stdout
    planned = projections.manage(
        "plan", "--window-start", "2024-03-01T05:00Z", "--window-end", "2024-03-01T06:00Z"
    )
    assert "totals: 5 history, 1 new;" in planned.stdout
    result = projections.run(5, 6)
    assert result.status == 0, result.stderr
    assert "totals: 6 buckets, 5 of its history" in result.stdout
    assert rows(projections, "totals") == totals(EVENTS)
    assert {row["persistence_id"]: row["sequence_nr"] for row in rows(projections, "latest")} == {
        "p|0": 3,
        "p|1": 3,
    }
    status = projections.manage("status", "totals")
    assert "began with 2024-03-01 00:00" in status.stdout
    assert projections.run(5, 6).report["state"] == "nothing-to-do"


@pytest.mark.long
def test_history_is_taken_in_oldest_first_over_as_many_runs_as_needed(
    make_journal: Callable[..., Journal], tmp_path: Path
) -> None:
    projections = six_hours(make_journal(CATCH_UP_BUCKETS="2"), tmp_path)
    for so_far in (2, 4, 6):
        result = projections.run(5, 6)
        assert result.status == 0, result.stderr
        for name in ("totals", "latest"):
            assert done(projections, name) == list(range(so_far))
        assert rows(projections, "totals") == totals(EVENTS[:so_far])
        left = f", {6 - so_far} left for the next run"
        assert (left in result.stdout) == (so_far < 6)
        [details] = projections.manage("status", "totals").report["details"]["projections"]
        assert details["open"] == 6 - so_far
        assert details["begun"] == "2024-03-01T00:00:00Z"


def test_definition_says_from_when(projections: Projections) -> None:
    begin = "source: {tags: [red, blue]}\nfrom: 2024-03-01T02:00Z"
    projections.define(TOTALS.replace("source: {tags: [red, blue]}", begin))
    only = ("--projection", "totals")
    before = projections.run(0, 2, *only)
    assert before.status == 0, before.stderr
    assert "totals begins at 2024-03-01T02:00:00Z: the window lies before" in before.stdout
    status = projections.manage("status", "totals")
    assert "not begun, from 2024-03-01T02:00:00Z" in status.stdout
    result = projections.run(4, 5, *only)
    assert result.status == 0, result.stderr
    assert done(projections, "totals") == [2, 3, 4]
    assert rows(projections, "totals") == totals(EVENTS[2:5])
    [details] = projections.manage("status", "totals").report["details"]["projections"]
    assert (details["from"], details["open"]) == ("2024-03-01T02:00:00Z", 1)
    # What is done stays done: only the first run asks.
    projections.define(TOTALS)
    assert projections.run(4, 5, *only).report["state"] == "nothing-to-do"
    assert rows(projections, "totals") == totals(EVENTS[2:5])


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        ("2024-03-01T02:30Z", "2024-03-01T02:30:00Z is within a Hour bucket"),
        ("2024-02-30", "from cannot be '2024-02-30'"),
        ("yesterday", "from cannot be 'yesterday'"),
    ],
)
def test_a_begin_that_cannot_be_is_one_line(
    projections: Projections, begin: str, said: str
) -> None:
    projections.define(TOTALS.replace("mode: bucket", f"mode: bucket\nfrom: {begin}"))
    result = projections.run(5, 6, "--projection", "totals")
    assert result.status == 2
    [line] = result.error_lines
    assert said in line
    assert "one.sql:6" in line


@pytest.mark.long
def test_history_that_validate_has_not_passed_is_held_and_not_forgotten(
    journal: Journal, tmp_path: Path
) -> None:
    projections = Projections(journal, tmp_path)
    projections.define(TOTALS, TOTALS_TABLE)
    projections.insert(*EVENTS)
    projections.validated(*range(1, 6))
    projections.journal.control.execute(
        f"INSERT INTO {journal.own_keyspace}.piece (application, subject, bucket_size, time_bucket,"
        " state, attempt) VALUES ('validate', ?, 'Hour', ?, 'failed', 1)",
        (journal.keyspace, EVENTS[0].time_bucket),
    )
    result = projections.run(5, 6)
    assert result.status == 0, result.stderr
    assert "1 held: not validated" in result.stdout
    projections.validated(0)
    result = projections.run(5, 6)
    assert result.status == 0, result.stderr
    assert rows(projections, "totals") == totals(EVENTS)


def test_history_begins_behind_what_purge_has_deleted(projections: Projections) -> None:
    """A projection that is written after a purge cannot have it, and must not wait for it."""
    gone = EVENTS[:2]
    projections.purged(0, 1)
    for lost in gone:
        projections.journal.control.execute(
            f"DELETE FROM {projections.journal.keyspace}.tag_views"
            " WHERE tag_name = 'red' AND timebucket = ?",
            (lost.time_bucket,),
        )
    result = projections.run(5, 6)
    assert result.status == 0, result.stderr
    assert done(projections, "totals") == [2, 3, 4, 5]
    assert rows(projections, "totals") == totals(EVENTS[2:])
    assert done(projections, "latest") == list(range(6))


@pytest.mark.long
def test_purge_keeps_what_a_projection_that_has_not_begun_needs(
    projections: Projections,
) -> None:
    """And nothing before the time from which on it reads."""
    (projections.directory / "two.sql").unlink()

    def plan() -> list[str]:
        result = projections.journal.run("purge", PROJECTIONS_DIR=str(projections.directory))
        assert result.status == 0, result.stderr
        return [line.strip() for line in result.report["lines"]]

    assert "keep 6 time buckets: needed by totals" in plan()
    projections.define(TOTALS.replace("mode: bucket", "mode: bucket\nfrom: 2024-03-01T04:00Z"))
    assert "keep 2 time buckets: needed by totals" in plan()
