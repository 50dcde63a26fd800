"""All of 2013: a projection of each mode, against direct computation over the whole CSV."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests import flights_model
from tests.flights_model import Event
from tests.integration.flights import READ_MODELS, defined, first_events
from tests.integration.project.flights_read_models import assert_examples, assert_shipped
from tests.integration.support import ROOT, Journal, Result

YEAR = ("--window-start", "2013-01-01", "--window-end", "2014-01-02")
BY_TAGS, AIRPORTS = "daily_punctuality", ("EWR", "JFK", "LGA")


@pytest.mark.soak
def test_a_projection_of_each_mode_holds_what_loops_over_the_year_find(
    make_journal: Callable[..., Journal], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The options that shorten short runs would make these runs endless.
    monkeypatch.delenv("SPARK_SUBMIT_OPTS")
    directory, definitions = tmp_path / "p", ("projections", "examples")
    journal = defined(make_journal, directory, *definitions, SPARK_DRIVER_MEMORY="3g")
    events = first_events(None)
    assert loaded(journal).report["counts"]["events_written"] == len(events)
    assert run_alone(journal, "tag_write", *YEAR).report["counts"]["events_read"] == len(events)
    assert run_alone(journal, "validate", *YEAR).report["counts"]["findings"] == 0
    counts = run_alone(journal, "project", *YEAR).report["counts"]

    rows = assert_shipped(journal, events) + assert_examples(journal, events, directory / "export")
    assert counts["rows_written"] == rows
    # A projection reads the tag views of all airports, the others messages: each sees every event.
    assert counts["events_read"] == (len(READ_MODELS) + 1) * len(events)
    assert {row["state"] for row in journal.own_rows("piece")} == {"done"}
    assert journal.own_rows("quarantine") == []
    assert offsets(journal) == highest_numbers(events)


def loaded(journal: Journal) -> Result:
    """Load the year into the journal, with the demo's own program."""
    program = [sys.executable, "-m", "examples.load_flights", "--months", "12"]
    environment = {**os.environ, **journal.environment}
    done = subprocess.run(
        program, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return Result(done.returncode, done.stdout, done.stderr)


def run_alone(journal: Journal, application: str, *arguments: str) -> Result:
    """Run an application in a process of its own; it must succeed, and its report is printed."""
    result = journal.run_alone(application, *arguments)
    print(result.stdout)
    assert result.status == 0, result.stderr
    return result


def offsets(journal: Journal) -> dict[tuple[str, str, str], int]:
    """Return the stored numbers by projection, persistence id and tag."""
    return {
        (row["projection"].partition("/")[2], row["persistence_id"], row["tag"]): (
            row["tag_pid_sequence_nr"] or row["sequence_nr"]
        )
        for row in journal.own_rows("projection_offset")
    }


def highest_numbers(events: Sequence[Event]) -> dict[tuple[str, str, str], int]:
    """Return the numbers that `offsets` must return; a projection of messages has an empty tag."""
    of_messages = [*(name for name in READ_MODELS if name != BY_TAGS), "flights_lake"]
    numbers = {
        (name, event.persistence_id, ""): event.sequence_nr
        for event in sorted(events, key=lambda event: event.sequence_nr)
        for name in of_messages
    }
    numbers |= {
        (BY_TAGS, row.persistence_id, row.tag): row.tag_pid_sequence_nr
        for row in flights_model.tag_rows(events)
        if row.tag in AIRPORTS
    }
    return numbers
