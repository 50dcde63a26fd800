"""The turns of the tests that `make test` leaves out: each commit has another share of them.

`make share` runs that of the commit that is checked out. Which of them ran on this machine, when,
and how they ended is kept in the tests' state directory (`make long-status`).
"""

from __future__ import annotations

import json
import subprocess
import zlib
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

SHARES = 10
LEFT_OUT = {"long", "soak"}
"""The marks of these tests."""
_FILE = "long-tests.json"
_RAN: dict[str, dict[str, str]] = {}
"""Those of this run, by their ids: when they ended, and how."""


def commits() -> int:
    """Return the number of commits up to the one that is checked out; 0 without Git."""
    return int(_git("rev-list", "--count", "HEAD") or 0)


def is_turn(function: str, commit: int, shares: int) -> bool:
    """Return whether a function of tests is in the share of a commit."""
    return (zlib.crc32(function.encode()) + commit) % shares == 0


def function_of(item: pytest.Item) -> str:
    """Return the id of a test without its parameters, which are tested together."""
    return item.nodeid.partition("[")[0]


def is_left_out(item: pytest.Item, marks: Collection[str] = LEFT_OUT) -> bool:
    """Return whether a test has one of the marks by which `make test` leaves tests out."""
    return any(item.get_closest_marker(mark) for mark in marks)


def note(report: pytest.TestReport) -> None:
    """Note how a test that `make test` leaves out has ended."""
    has_ended = report.when == "call" or report.failed
    if has_ended and LEFT_OUT & report.keywords.keys() and report.outcome != "skipped":
        at = datetime.now(UTC).isoformat(timespec="minutes")
        _RAN[report.nodeid] = {"at": at, "outcome": report.outcome}


def keep(state: Path) -> None:
    """Add this run's tests to those that are kept."""
    if _RAN:
        commit = _git("rev-parse", "--short", "HEAD")
        ran = {nodeid: {**one, "commit": commit} for nodeid, one in _RAN.items()}
        text = json.dumps({**kept(state), **ran}, indent=1, sort_keys=True)
        (state / _FILE).write_text(text + "\n")


def kept(state: Path) -> dict[str, dict[str, str]]:
    """Return when tests last ran on this machine, by their ids."""
    file = state / _FILE
    found: dict[str, dict[str, str]] = json.loads(file.read_text()) if file.exists() else {}
    return found


def status(items: Iterable[pytest.Item], last: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return a line for each test that `make test` leaves out, the oldest run first."""
    lines = []
    for item in filter(is_left_out, items):
        ran = last.get(item.nodeid)
        when = f"{ran['at']}  {ran['outcome']:6}  {ran['commit']}" if ran else "never here"
        lines.append(f"{when:40}  {item.nodeid}")
    return sorted(lines, key=lambda line: (not line.startswith("never"), line))


def repeats(failed: Iterable[pytest.TestReport]) -> list[str]:
    """Return the command that repeats each failed test that `make test` leaves out."""
    return [
        f"repeat it: make soak PYTEST_ARGS='{report.nodeid}'"
        for report in failed
        if LEFT_OUT & report.keywords.keys()
    ]


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
