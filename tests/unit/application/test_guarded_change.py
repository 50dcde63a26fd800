"""The order in which a change by hand is planned, locked, audited and applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast
from unittest.mock import Mock

import pytest

from tidemark.application.guarded_change import EnsureLocked, Plan, guarded_change
from tidemark.context import Outcome, RunContext, RunState
from tidemark.errors import LockLost
from tidemark.ledger import audit
from tidemark.ledger.locks import Locks

PLANNED, DONE = {"rows": 2}, {"rows": 1}


class Change:
    """A change that notes its calls."""

    def __init__(self, *, is_empty: bool = False, fails: bool = False) -> None:
        self.seen: list[Any] = []
        self.is_empty, self.fails = is_empty, fails

    def plan(self) -> Plan:
        self.seen.append("plan")
        return Plan(PLANNED, ["two rows"], None if self.is_empty else self.apply, {"more": 1})

    def apply(self, ensure_locked: EnsureLocked) -> Mapping[str, int]:
        ensure_locked()
        self.seen.append("apply")
        if self.fails:
            raise LockLost("lost the lock")
        return DONE

    @contextmanager
    def lock(self) -> Iterator[Locks]:
        self.seen.append("lock")
        yield cast(Locks, Mock(check=lambda: self.seen.append("still locked")))
        self.seen.append("unlock")

    def run(self, monkeypatch: pytest.MonkeyPatch, *, apply: bool) -> Outcome:
        def record(
            run: RunContext,
            operation: str,
            subject: str,
            lines: list[str],
            counts: Mapping[str, int],
            *,
            dry_run: bool = False,
        ) -> None:
            assert (subject, list(lines)) == ("s", ["two rows"])
            self.seen.append((operation, counts, dry_run))

        monkeypatch.setattr(audit, "record", record)
        run = cast(RunContext, None)
        return guarded_change(run, "change", "s", self.plan, lock=self.lock, apply=apply)


def test_a_dry_run_is_audited_and_takes_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    change = Change()
    outcome = change.run(monkeypatch, apply=False)
    assert change.seen == ["plan", ("change", PLANNED, True)]
    assert (outcome.state, outcome.counts) == (RunState.PLANNED, PLANNED)
    assert outcome.lines == ["two rows", "dry run: nothing was changed; --apply does it"]
    assert outcome.details == {"more": 1, "can_be_applied": True}


def test_a_dry_run_with_nothing_to_do_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = Change(is_empty=True).run(monkeypatch, apply=False)
    assert outcome.lines == ["two rows", "nothing would change"]


def test_a_change_is_planned_and_made_under_the_lock_between_two_audit_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change = Change()
    outcome = change.run(monkeypatch, apply=True)
    assert change.seen == [
        "lock",
        "plan",
        ("change started", PLANNED, False),
        "still locked",
        "apply",
        ("change", DONE, False),
        "unlock",
    ]
    assert (outcome.state, outcome.counts, outcome.lines) == (RunState.DONE, DONE, ["two rows"])


def test_nothing_to_do_leaves_no_audit_row(monkeypatch: pytest.MonkeyPatch) -> None:
    change = Change(is_empty=True)
    outcome = change.run(monkeypatch, apply=True)
    assert change.seen == ["lock", "plan", "unlock"]
    assert (outcome.state, outcome.counts) == (RunState.NOTHING, PLANNED)


def test_what_ends_in_the_middle_leaves_the_first_audit_row_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change = Change(fails=True)
    with pytest.raises(LockLost):
        change.run(monkeypatch, apply=True)
    assert change.seen[-1] == "apply"
    assert ("change started", PLANNED, False) in change.seen
