"""One order of the chain over a damaged week, also killed in the middle and run again.

All tables must equal those before the damage, without run ids and times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.faults.killing import kill_after
from tests.faults.seams import Seam
from tests.faults.test_crashes import without_lagging
from tests.integration.flights import DAY_MS, FlightsJournal, defined, first_events, message
from tests.integration.support import Journal, Result

FLIGHTS = 6_300
"""The flights of the first week of 2013."""
AIRCRAFT = ("1UA", "3JB", "2MQ")
"""The last letters of the aircraft whose events are in the journal."""
WEEK = ("--window-start", "2013-01-01", "--window-end", "2013-01-08")
DAMAGED = 1_357_171_200_000
"""3 January."""
READ_MODEL = "daily_punctuality"
"""The read model with the time bucket in its key."""
State = dict[str, list[Any]]


@dataclass(frozen=True)
class Week:
    """A journal with the events of a week, and its tables before any damage."""

    loaded: FlightsJournal
    undamaged: State


@pytest.fixture(scope="module")
def week(make_journals: Callable[..., Journal], tmp_path_factory: pytest.TempPathFactory) -> Week:
    directory = tmp_path_factory.mktemp("week") / "projections"
    journal = defined(make_journals, directory, "projections")
    events = tuple(
        event for event in first_events(FLIGHTS) if event.persistence_id.endswith(AIRCRAFT)
    )
    days = {event.time_ms // DAY_MS * DAY_MS for event in events}
    assert days >= {DAMAGED + day * DAY_MS for day in range(-2, 5)}
    journal.insert("messages", [message(event) for event in events])
    loaded = FlightsJournal(journal, events)
    order(journal)
    return Week(loaded, state_of(loaded))


def order(journal: Journal, *options: str) -> Result:
    """Run the chain over the week."""
    result = journal.run("chain", *WEEK, *options)
    assert result.status == 0, result.stderr
    return result


def state_of(loaded: FlightsJournal) -> State:
    """Return all tables; every time bucket is done."""
    assert {row["state"] for row in loaded.journal.own_rows("piece")} == {"done"}
    return without_lagging(loaded.everything())


def damage(journal: Journal) -> None:
    """Delete the rows of a day in tag views and read models, and let its time buckets fail."""
    tags = {row["tag_name"] for row in journal.rows("tag_views") if row["timebucket"] == DAMAGED}
    for tag in tags:
        journal.control.execute(
            f"DELETE FROM {journal.keyspace}.tag_views WHERE tag_name = ? AND timebucket = ?",
            [tag, DAMAGED],
        )
    assert any(row["time_bucket"] == DAMAGED for row in journal.rows(READ_MODEL))
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.{READ_MODEL} WHERE time_bucket = ?", [DAMAGED]
    )
    for row in journal.own_rows("piece"):
        if row["time_bucket"] == DAMAGED:
            key = ("application", "subject", "bucket_size", "time_bucket")
            journal.control.execute(
                f"UPDATE {journal.own_keyspace}.piece SET state = 'failed' WHERE "
                + " AND ".join(f"{name} = ?" for name in key)
                + " IF EXISTS",
                [row[name] for name in key],
            )
    assert tags


def test_one_order_repairs_a_damaged_week(week: Week) -> None:
    journal = week.loaded.journal
    damage(journal)
    previewed = order(journal, "--dry-run").report["details"]["plan"]
    day = [["2013-01-03T00:00:00Z", "2013-01-04T00:00:00Z"]]
    names = ("tag-write", "validate", "aircraft_state", READ_MODEL)
    ranges = {part["projection"] or part["application"]: part["ranges"] for part in previewed}
    assert ranges == dict.fromkeys(names, day)
    assert all(part["states"] == {"done": 6, "failed": 1} for part in previewed)
    result = order(journal)
    assert state_of(week.loaded) == week.undamaged
    steps = result.report["details"]["steps"]
    assert [step["pieces"]["done"] for step in steps.values()] == [1, 1, 2]


@pytest.mark.parametrize(
    "seam",
    [Seam.BUCKET_ROWS_WRITTEN, pytest.param(Seam.TAG_VIEWS_WRITTEN, marks=pytest.mark.soak)],
)
def test_an_order_that_is_killed_and_run_again_repairs_the_week(week: Week, seam: Seam) -> None:
    journal = week.loaded.journal
    damage(journal)
    kill_after(journal, seam, "chain", *WEEK)
    assert "running" in {row["state"] for row in journal.own_rows("piece")}
    order(journal)
    assert state_of(week.loaded) == week.undamaged
