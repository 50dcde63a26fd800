"""The example projections of the flights, against direct computation over the CSV."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.flights import WINDOW, FlightsJournal
from tests.integration.flights_read_models import assert_examples
from tests.integration.support import Journal

FLIGHTS = 300


@pytest.mark.long
def test_the_examples_hold_what_loops_over_the_flights_find(
    make_journal: Callable[..., Journal], tmp_path: Path
) -> None:
    directory = tmp_path / "p"
    loaded = FlightsJournal.create(make_journal, directory, FLIGHTS, "examples")
    result = loaded.journal.run("project", *WINDOW, "--force")
    assert result.status == 0, result.stderr
    written = assert_examples(loaded.journal, loaded.events, directory / "export")
    assert result.report["counts"]["rows_written"] == written
