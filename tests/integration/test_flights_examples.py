"""The example projections of the flights, against direct computation over the CSV."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.flights import FlightsJournal
from tests.integration.project.flights_read_models import assert_examples, assert_shipped
from tests.integration.support import Journal

FLIGHTS = 300


@pytest.mark.long
def test_the_examples_hold_what_loops_over_the_flights_find(
    make_journal: Callable[..., Journal], tmp_path: Path
) -> None:
    directory = tmp_path / "p"
    loaded = FlightsJournal.create(make_journal, directory, FLIGHTS, "projections", "examples")
    *_, result = loaded.run_chain("tag_write", "validate", "project")
    written = assert_shipped(loaded.journal, loaded.events)
    written += assert_examples(loaded.journal, loaded.events, directory / "export")
    assert result.report["counts"]["rows_written"] == written
