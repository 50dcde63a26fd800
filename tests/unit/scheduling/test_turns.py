"""The turns of the tests that `make test` leaves out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduling import turns


@given(st.text(), st.integers(0, 10**6))
def test_of_as_many_commits_as_there_are_shares_one_has_the_turn(function: str, first: int) -> None:
    commits = range(first, first + turns.SHARES)
    assert sum(turns.is_turn(function, commit, turns.SHARES) for commit in commits) == 1


def item(nodeid: str, *marks: str) -> Any:
    return SimpleNamespace(
        nodeid=nodeid, get_closest_marker=lambda mark: mark if mark in marks else None
    )


def test_what_ran_here_is_kept_and_what_never_did_is_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def report(nodeid: str, outcome: str, *keywords: str, when: str = "call") -> Any:
        return SimpleNamespace(
            nodeid=nodeid,
            outcome=outcome,
            failed=outcome == "failed",
            when=when,
            keywords=dict.fromkeys(keywords, 1),
        )

    monkeypatch.setattr(turns, "_RAN", {})
    reports = [
        report("t.py::long", "passed", "long"),
        report("t.py::broken", "failed", "soak", when="setup"),
        report("t.py::late", "skipped", "long", when="setup"),
        report("t.py::plain", "passed"),
    ]
    for one in reports:
        turns.note(one)
    turns.keep(tmp_path)
    kept = turns.kept(tmp_path)
    assert {name: ran["outcome"] for name, ran in kept.items()} == {
        **{"t.py::long": "passed", "t.py::broken": "failed"},
    }
    monkeypatch.setattr(turns, "_RAN", {})
    turns.keep(tmp_path)
    items = [item("t.py::long", "long"), item("t.py::late", "long"), item("t.py::plain")]
    first, second = turns.status(items, turns.kept(tmp_path))
    assert first.split() == ["never", "here", "t.py::late"]
    assert second.endswith("t.py::long")
    assert turns.repeats([reports[1], reports[3]]) == [
        "repeat it: make soak PYTEST_ARGS='t.py::broken'"
    ]
