"""tag-write killed with SIGKILL at random moments of its writes; the soak repeats it many times.

`--kills` chooses how often (`make soak`: 100); by default it is a sample.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.test_crashes import wait_for_locks
from tests.integration.flights import WINDOW, FlightsJournal
from tests.integration.support import ROOT, Journal

FLIGHTS = 1500
SCRIPT = ROOT / "spark_apps" / "tag_write.py"


def test_killed_at_random_moments_of_its_writes_and_run_again(
    make_journal: Callable[..., Journal], tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    undisturbed = FlightsJournal.create(make_journal, tmp_path / "undisturbed", FLIGHTS)
    undisturbed.run_chain("tag_write")
    killed = FlightsJournal.create(make_journal, tmp_path / "killed", FLIGHTS, LOCK_TTL="10")
    moments = random.Random(20131231)
    for _ in range(pytestconfig.getoption("kills")):
        kill_during_writes(killed.journal, after_s=moments.uniform(0.0, 3.0))
        wait_for_locks(killed.journal)
    killed.run_chain("tag_write")
    assert killed.everything() == undisturbed.everything()
    assert {row["state"] for row in killed.journal.own_rows("piece")} == {"done"}


def kill_during_writes(journal: Journal, after_s: float) -> None:
    """Start tag-write over everything, and kill it so long after its first write began."""
    process = journal.start(SCRIPT, *WINDOW, "--force")
    assert process.stderr is not None
    for line in process.stderr:
        if "writing" in line:
            break
    # The moment of the kill is the test's input; nothing is waited for.
    threading.Event().wait(after_s)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
