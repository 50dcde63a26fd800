"""The steps of the chain: which of them runs, over which window, and how the whole ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidemark.application.frame import PartReport
from tidemark.chain import run as chain
from tidemark.chain.run import ChainOptions
from tidemark.context import Outcome, RunContext
from tidemark.errors import LockHeld, TidemarkError, ValidationFailed
from tidemark.window import Window, iso

FAILED = ValidationFailed("2 findings", where="finding", do="repair")
LOCKED = LockHeld("locked", where="a", do="wait")


def days(first: int, last: int) -> Window:
    """Return the window of days of a month, the last exclusive."""
    return Window(*(datetime(2024, 3, day, tzinfo=UTC) for day in (first, last)))


@dataclass(frozen=True)
class End:
    """How a step ends: with what it has completed, and an error."""

    done: Window | None = None
    error: TidemarkError | None = None
    is_interrupted: bool = False

    def report(self, application: str) -> PartReport:
        state = "failed" if self.error else "done" if self.done else "nothing-to-do"
        content = {
            "application": application,
            "state": state,
            "pieces": {"planned": 2, "done": 1, "held": 0, "failed": int(self.error is not None)},
            "done_start": self.done and iso(self.done.start),
            "done_end": self.done and iso(self.done.end),
        }
        return PartReport(content, self.error, has_ended=not self.is_interrupted)


def run(
    monkeypatch: pytest.MonkeyPatch,
    ends: Sequence[End],
    options: ChainOptions | None = None,
    *,
    is_r2dbc: bool = False,
) -> tuple[Outcome, list[tuple[str, Window, bool]]]:
    """Run the chain over 3 March; return its outcome, and of each step its window and force."""
    begun: list[tuple[str, Window, bool]] = []

    def part(
        context: RunContext, name: str, work: Callable[..., Any], window: Window
    ) -> PartReport:
        over, chosen = cast("Any", work).args
        assert over == window
        begun.append((name, window, chosen.force))
        report = ends[len(begun) - 1].report(name)
        context.parts[name] = report.content
        return report

    monkeypatch.setattr(chain, "run_part", part)
    context = cast(
        "RunContext",
        SimpleNamespace(
            say=lambda text: None, parts={}, settings=SimpleNamespace(is_r2dbc=is_r2dbc)
        ),
    )
    return chain.run_window(context, days(3, 4), options or ChainOptions()), begun


def test_a_journal_in_postgresql_has_no_step_of_tag_views(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome, begun = run(monkeypatch, [End(), End()], is_r2dbc=True)
    assert [name for name, _, _ in begun] == ["validate", "project"]
    assert outcome.error is None


def test_each_step_gets_what_the_one_before_has_completed_elsewhere_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends = [End(days(1, 4)), End(days(2, 5)), End(days(3, 4))]
    outcome, begun = run(monkeypatch, ends)
    assert [(name, window) for name, window, _ in begun] == [
        ("tag-write", days(3, 4)), ("validate", days(1, 4)), ("project", days(1, 5))
    ]  # fmt: skip
    assert (outcome.state, outcome.error, outcome.done) == ("done", None, days(3, 4))
    assert (outcome.pieces.planned, outcome.pieces.done) == (6, 3)


def test_a_step_with_nothing_to_do_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome, begun = run(monkeypatch, [End(), End(), End()])
    assert [window for _, window, _ in begun] == [days(3, 4)] * 3
    assert (outcome.state, outcome.done) == ("nothing-to-do", None)
    assert run(monkeypatch, [End(), End(), End(days(3, 4))])[0].state == "done"


def test_by_force_only_the_given_window_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _, begun = run(monkeypatch, [End(days(1, 4)), End(days(2, 5)), End()], ChainOptions(force=True))
    assert [(window, force) for _, window, force in begun] == [(days(3, 4), True)] * 3


@pytest.mark.parametrize("done", [None, days(3, 4)])
def test_after_a_failed_check_nothing_is_projected_by_force(
    monkeypatch: pytest.MonkeyPatch, done: Window | None
) -> None:
    """What has passed earlier must not wait for what does not pass."""
    ends = [End(days(3, 4)), End(done, FAILED), End(days(3, 4))]
    outcome, begun = run(monkeypatch, ends, ChainOptions(force=True))
    assert [(window, force) for _, window, force in begun] == [
        (days(3, 4), True), (days(3, 4), True), (days(3, 4), False)
    ]  # fmt: skip
    assert (outcome.state, outcome.error, outcome.done) == ("failed", FAILED, days(3, 4))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_nothing_follows_a_step_that_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    ends = [End(days(3, 4))] * number + [End(None, LOCKED, is_interrupted=True)]
    outcome, begun = run(monkeypatch, ends)
    assert len(begun) == number + 1
    assert outcome.error == LOCKED
    names = [name for name, _, _ in begun]
    left_out = [name for name in chain.STEPS if name not in names]
    assert [line for line in outcome.lines if "not started" in line] == [
        f"{name}: not started, a step before it was interrupted" for name in left_out
    ]
    assert list(cast("dict[str, Any]", outcome.details["steps"])) == names


def test_all_failures_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [End(days(3, 4)), End(days(3, 4), FAILED), End(None, LOCKED, is_interrupted=True)]
    outcome, _ = run(monkeypatch, ends)
    assert str(outcome.error).splitlines() == [str(FAILED), str(LOCKED)]
