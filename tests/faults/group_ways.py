"""Event groups that go forward, and back when their last event fails; killed at their writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.faults.fencing import CHECK, Step, is_checked_before_each, traced
from tests.faults.killing import kill_after
from tests.faults.seams import Seam
from tests.integration.support import Journal

APPLICATION = "run_event_groups"
Writes = Mapping[str, Mapping[Seam, int]]
"""How often an undisturbed run writes, by the way of the group and the kind of write."""
State = Callable[[Journal], dict[str, Any]]


@dataclass(frozen=True)
class Undisturbed:
    """What undisturbed runs leave, by the way of the group, and their checks and writes."""

    writes: Writes
    state_of: State
    states: dict[str, dict[str, Any]]
    traces: dict[str, list[Step]]


def cases_of(writes: Writes) -> list[tuple[str, Seam]]:
    """Return each write of each way, as `forward 2`: until its last event fails, both go alike."""
    return [
        (f"{way} {call}", write)
        for way, kinds in writes.items()
        for write, calls in kinds.items()
        for call in range(1, calls + 1)
        if way == "forward" or call > writes["forward"].get(write, 0) or call == calls
    ]


def executed(writes: Writes, state: State, prepare: Callable[[str], Journal]) -> Undisturbed:
    """Execute a group of each way without a kill, in the journal that `prepare` returns."""
    found = Undisturbed(writes, state, {}, {})
    for way, kinds in writes.items():
        journal = prepare(way)
        with pytest.MonkeyPatch.context() as patched:
            found.traces[way] = traced(patched, kinds)
            result = journal.run(APPLICATION)
        assert result.status == (0 if way == "forward" else 3), result.stderr
        found.states[way] = state(journal)
    return found


def assert_locks_are_asked_for(undisturbed: Undisturbed, way: str) -> None:
    """Assert that a run asks for its lock before each of the writes that it is known to make."""
    trace = undisturbed.traces[way]
    made = Counter(step for step in trace if step != CHECK)
    assert made == undisturbed.writes[way], made
    assert is_checked_before_each(trace)


def kill_and_run_again(
    undisturbed: Undisturbed, prepare: Callable[[str], Journal], case: str, seam: Seam
) -> None:
    """Kill a run after the write of a case, `forward 2`, and compare what the next run leaves."""
    way, call = case.split()
    journal = prepare(way)
    kill_after(journal, (seam, int(call)), APPLICATION)
    result = journal.run(APPLICATION)
    # The killed run may have ended all groups.
    assert result.status in (0, 3), result.stderr
    assert journal.run(APPLICATION).report["state"] == "nothing-to-do"
    assert undisturbed.state_of(journal) == undisturbed.states[way]
