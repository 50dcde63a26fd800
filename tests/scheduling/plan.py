"""In which groups the tests run, and in which order the groups begin."""

from __future__ import annotations

from pathlib import PurePosixPath

SHARING = ("interop", "dags")
"""Directories whose tests share a server that only they use. Airflow's takes the most while it has
nothing to do, and runs until the tests end."""
ROOMS = (*SHARING, "cluster", "faults", "live", "integration", "security", "unit")
"""Directories in the order in which they are begun: the slowest must not begin last."""
WAITING = (*SHARING, "tests/live/test_real_time.py")
"""Groups that mostly wait: for Airflow's scheduler, for Pekko's readers, for the next minute."""
BEGUN_FIRST = (
    "tests/dags/test_chain.py",
    "tests/unit/reconcile/test_reconciliation.py",
    "tests/unit/validate/test_continuity.py",
    "tests/unit/validate/test_incremental.py",
    "tests/unit/test_flights.py",
    "tests/unit/reconcile/test_cleanup_rules.py",
)
"""Files that are begun before the others of their directory, for the same reason, and the one with
an Airflow of its own, before the shared one runs beside it."""


def room(nodeid: str) -> str:
    """Return the directory below `tests` that a test is in."""
    return PurePosixPath(file_of(nodeid)).parts[1]


def group(nodeid: str) -> str:
    """Return the group that a test runs in: those of a directory of SHARING, or those of a file."""
    directory = room(nodeid)
    return directory if directory in SHARING else file_of(nodeid)


def place(nodeid: str) -> tuple[int, int]:
    """Return what tests are sorted by: ROOMS, and in each of them BEGUN_FIRST."""
    file = file_of(nodeid)
    first = BEGUN_FIRST.index(file) if file in BEGUN_FIRST else len(BEGUN_FIRST)
    return ROOMS.index(room(nodeid)), first


def file_of(nodeid: str) -> str:
    """Return the file of a test."""
    return nodeid.partition("::")[0]
