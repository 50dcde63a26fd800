"""The four applications on the first flights of 2013, against a brute-force model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration import flights
from tests.integration.flights import CHAIN, WINDOW, FlightsJournal
from tests.integration.project.flights_read_models import assert_shipped, tag_rows
from tests.integration.support import Journal

FLIGHTS = 1_800
FLIGHTS_OF_TWO_DAYS = 900
FIRST_TWO_DAYS = ("--window-start", "2013-01-01", "--window-end", "2013-01-03")


@pytest.fixture
def loaded(make_journal: Callable[..., Journal], tmp_path: Path) -> FlightsJournal:
    return FlightsJournal.create(make_journal, tmp_path / "projections", FLIGHTS)


def test_chain_equals_the_model_and_repeats_nothing(loaded: FlightsJournal) -> None:
    journal, events = loaded.journal, loaded.events
    tagged, validated, projected = loaded.run_chain(*CHAIN)

    assert tag_rows(journal) == flights.expected_tag_rows(events)
    assert tagged.report["counts"]["events_read"] == len(events)
    assert validated.report["counts"]["findings"] == 0
    assert journal.own_rows("finding") == []

    assert_shipped(journal, events)
    # A projection reads messages, another the tag views of all airports: each sees every event.
    assert projected.report["counts"]["events_read"] == 2 * len(events)

    before = loaded.everything()
    for name in CHAIN:
        skip = ("--skip-passed",) if name == "validate" else ()
        assert journal.run(name, *WINDOW, *skip).report["state"] == "nothing-to-do"
    for name in CHAIN:
        assert journal.run(name, *WINDOW, "--force").report["state"] == "done"
    assert loaded.everything() == before


@pytest.mark.long
def test_purge_takes_the_old_buckets_and_the_read_model_stays(loaded: FlightsJournal) -> None:
    """A projection over purged buckets is refused until they are written again.

    The projection would find the buckets empty and replace a good result by nothing.
    """
    journal = loaded.journal
    loaded.run_chain(*CHAIN)
    model = journal.rows("daily_punctuality")
    in_two_days = {
        row["timebucket"] for row in journal.rows("tag_views") if row["timebucket"] < 1357171200000
    }
    result = journal.run("purge", *FIRST_TWO_DAYS, "--apply")
    assert result.status == 0
    assert result.report["counts"]["buckets_purged"] == len(in_two_days) == 2
    assert min(row["timebucket"] for row in journal.rows("tag_views")) == 1357171200000
    assert journal.rows("daily_punctuality") == model

    refused = journal.run("project", *WINDOW, "--force")
    assert refused.status == 3
    assert "2013-01-01 00:00: its tag views were deleted by purge" in refused.error_lines[0]
    assert journal.rows("daily_punctuality") == model
    # The gap that a purge leaves at the front is no finding.
    assert journal.run("validate", *WINDOW, "--force").status == 0

    assert journal.run("tag_write", *FIRST_TWO_DAYS, "--force").status == 0
    assert journal.run("project", *WINDOW, "--force").status == 0
    assert journal.rows("daily_punctuality") == model


@pytest.mark.long
def test_failed_check_holds_back_the_projections(
    make_journal: Callable[..., Journal], tmp_path: Path
) -> None:
    loaded = FlightsJournal.create(make_journal, tmp_path / "projections", FLIGHTS_OF_TWO_DAYS)
    journal = loaded.journal
    loaded.run_chain("tag_write")
    deletions = next(row for row in journal.rows("tag_views") if row["tag_pid_sequence_nr"] == 2)
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.tag_views WHERE tag_name = ? AND timebucket = ?"
        " AND timestamp = ? AND persistence_id = ? AND tag_pid_sequence_nr = ?",
        [
            deletions[name]
            for name in ("tag_name", "timebucket", "timestamp", "persistence_id")
        ] + [2],
    )  # fmt: skip
    failed = journal.run("validate", *WINDOW)
    assert failed.status == 3
    assert deletions["persistence_id"] in failed.error_lines[0]
    held = journal.run("project", *WINDOW)
    assert held.report["pieces"]["held"] > 0
    repaired = journal.run("tag_write", *WINDOW, "--force")
    assert repaired.status == 0
    loaded.run_chain("validate", "project")
    assert_shipped(journal, loaded.events)
