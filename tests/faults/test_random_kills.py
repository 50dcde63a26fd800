"""Applications killed with SIGKILL at random moments of their writes.

`--kills` sets the number of kills (`make soak`: 100); the default is a sample.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.killing import kill_behind, wait_for_locks
from tests.integration.flights import WINDOW, FlightsJournal
from tests.integration.support import ROOT, Journal

FLIGHTS = 1500
COMMANDS = {
    "tag_write": ("tag_write", *WINDOW, "--force"),
    "project": ("project", *WINDOW, "--force"),
    "rebuild": ("reconcile", "rebuild", "--all", "--apply"),
}


@pytest.mark.parametrize(
    ("name", "before", "last"),
    [
        pytest.param("tag_write", (), ("tag_write", *WINDOW), marks=pytest.mark.long),
        pytest.param(
            "project",
            ("tag_write", "validate"),
            ("project", *WINDOW),
            marks=pytest.mark.long,
        ),
        pytest.param("rebuild", ("tag_write",), COMMANDS["rebuild"], marks=pytest.mark.soak),
    ],
    ids=COMMANDS,
)
def test_killed_at_random_moments_of_its_writes_and_run_again(
    make_journal: Callable[..., Journal],
    tmp_path: Path,
    pytestconfig: pytest.Config,
    name: str,
    before: tuple[str, ...],
    last: tuple[str, ...],
) -> None:
    """The kill hits a write of Spark, with some partitions written and others not."""
    loaded = {
        home: FlightsJournal.create(make_journal, tmp_path / home, FLIGHTS, LOCK_TTL="10")
        for home in ("undisturbed", "killed")
    }
    for flights in loaded.values():
        flights.run_chain(*before)
    killed = loaded["killed"]
    moments = random.Random(20131231)
    kills, hits = pytestconfig.getoption("kills"), 0
    for _ in range(kills):
        hits += kill_during_writes(killed.journal, COMMANDS[name], moments.uniform(0.0, 3.0))
        wait_for_locks(killed.journal)
    assert hits > kills / 2
    for flights in loaded.values():
        result = flights.journal.run(*last)
        assert result.status == 0, result.stderr
    assert killed.everything() == loaded["undisturbed"].everything()
    assert {row["state"] for row in killed.journal.own_rows("piece")} == {"done"}


def kill_during_writes(journal: Journal, command: tuple[str, ...], after_s: float) -> bool:
    """Start a command, and kill it `after_s` seconds after the start of its first write.

    Returns:
        whether it had not ended by then.
    """
    application, *arguments = command
    process = journal.start(ROOT / "spark_apps" / f"{application}.py", *arguments)
    return kill_behind(process, "writing", after_s)
