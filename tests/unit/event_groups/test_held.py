"""Runs over a stream execute what a run would that reads all of it, whatever was kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.dying import Died
from tidemark.event_groups.definition.row_keys import GroupFootprint
from tidemark.event_groups.stream import holding
from tidemark.event_groups.stream.concurrency import collides
from tidemark.event_groups.stream.holding import HeldGroups, OpenGroup, OpenGroups, Waiting
from tidemark.event_groups.stream.states import GroupState, StoredGroup, Version
from tidemark.event_groups.stream.store import EndedGroup, Place

SUBMITTED = GroupState.SUBMITTED
STUCK = GroupState.ROLLBACK_FAILED
BACK = GroupState.ROLLING_BACK
ENDS = (GroupState.DONE, GroupState.DONE, STUCK, BACK)
"""How an execution may end; the last one waits for somebody else."""


@dataclass(frozen=True)
class Rows:
    """Stands for the definition of a group: what it writes and reads."""

    writes: frozenset[int] | None
    reads: frozenset[int] = frozenset()

    def footprint_as(self, item: Any, *, reads: bool) -> GroupFootprint[Any]:
        read = self.reads if reads else frozenset()
        return GroupFootprint(
            item, 1, None if self.writes is None else _keys(self.writes), _keys(read)
        )


def _keys(rows: frozenset[int]) -> frozenset[Any]:
    return frozenset(("t", (("id", str(row)),)) for row in rows)


@dataclass
class FakeStream:
    """A stream in memory, with what runs keep of it; it may die, or change, at each request."""

    name: str = "s"
    groups: dict[str, StoredGroup] = field(default_factory=dict)
    submitted: int = 0
    row: dict[str, Any] = field(default_factory=dict)
    changes: set[Version] = field(default_factory=set)
    begun: list[tuple[Version, GroupState]] = field(default_factory=list)
    """Changes by hand that were noted, and not made yet."""
    read: list[str] = field(default_factory=list)
    executed: set[str] = field(default_factory=set)
    passed: set[Place] = field(default_factory=set)
    at_request: Callable[[], None] = lambda: None

    def submit(self, name: str, rows: Rows, state: GroupState = GroupState.SUBMITTED) -> None:
        self.submitted += 1
        definition = cast("Any", rows)
        self.groups[name] = StoredGroup(
            *(name, self.submitted, state, definition, ""), change_id=uuid4()
        )

    def set(self, name: str, state: GroupState) -> StoredGroup:
        self.groups[name] = replace(self.groups[name], state=state, change_id=uuid4())
        return self.groups[name]

    def begin(self, name: str, state: GroupState) -> None:
        version = self.groups[name].version
        self.kept_groups().note_change(version)
        self.begun.append((version, state))

    def make(self, change: tuple[Version, GroupState]) -> None:
        self.begun.remove(change)
        version, state = change
        if version.id in self.groups and self.groups[version.id].version == version:
            self.set(version.id, state)

    def versions(self, names: Collection[str]) -> Collection[Version]:
        self.at_request()
        return {self.groups[name].version for name in names if name in self.groups}

    def in_order(self) -> list[StoredGroup]:
        return sorted(self.groups.values(), key=lambda group: group.sequence)

    def open(self, first: int | None, ended: Any) -> Iterator[StoredGroup]:
        places = [(one.id, one.sequence) for one in self.in_order()]
        yield from self.not_ended([one for one in places if one[1] >= (first or 0)], ended).values()

    def not_ended(self, places: Sequence[Place], ended: Any) -> dict[Place, StoredGroup]:
        self.at_request()
        self.read += [name for name, _ in places]
        return {(one.id, one.sequence): one for one in self._open(places, ended)}

    def states(self, places: Sequence[Place], ended: Any) -> dict[Place, GroupState]:
        self.at_request()
        return {(one.id, one.sequence): one.state for one in self._open(places, ended)}

    def _open(self, places: Sequence[Place], ended: Any) -> list[StoredGroup]:
        found = [self.groups.get(name) for name, _ in places]
        groups = [one for one in found if one is not None and (one.id, one.sequence) in places]
        have_ended = [one for one in groups if one.state.has_ended]
        self.passed |= {(one.id, one.sequence) for one in have_ended}
        ended([EndedGroup(one.id, 0) for one in have_ended])
        return [one for one in groups if not one.state.has_ended]

    def next_sequence(self) -> int:
        self.at_request()
        return self.submitted + 1

    def execute(self, statement: str, values: Sequence[Any]) -> list[dict[str, Any]]:
        self.at_request()
        if "changes + ?" in statement:
            self.changes |= values[0]
        elif "changes - ?" in statement:
            self.changes -= values[0]
        return [{**self.row, "changes": {*self.changes} or None}]

    def applied(self, statement: str, values: Sequence[Any]) -> tuple[bool, dict[str, Any]]:
        self.at_request()
        *row, _, last_kept = values
        is_applied = self.row.get("change_id") == last_kept
        if is_applied:
            names = re.findall(r'"(\w+)" = \?', statement.partition("WHERE")[0])
            self.row |= dict(zip(names, row, strict=True))
        return is_applied, {}

    def kept_groups(self) -> HeldGroups:
        run = SimpleNamespace(control=self, run_id="r", settings=SimpleNamespace(keyspace="k"))
        return HeldGroups(cast("Any", run), cast("Any", self))


def held_by(stream: FakeStream) -> set[str]:
    """Return which groups a run holds that reads all of them, and has executed what it may."""
    held: list[GroupFootprint[OpenGroup]] = []
    for group in stream.in_order():
        footprint = holding.footprint_of(group, is_left=group.state is BACK)
        is_open = not group.state.has_ended
        if is_open and (footprint.item.is_stuck or any(collides(one, footprint) for one in held)):
            held.append(footprint)
    return {one.item.id for one in held}


def run(stream: FakeStream, ends: Callable[[str], GroupState]) -> Waiting:
    """Return what is reported as waiting."""
    kept = stream.kept_groups()
    stream.executed.clear()
    first_new = stream.next_sequence()
    if (waiting := kept.unchanged(first_new)) is not None:
        return waiting
    open_groups = OpenGroups(
        cast("Any", stream), kept.read(lambda _: None), first_new, lambda _: None
    )

    def execute(part: list[StoredGroup]) -> list[StoredGroup]:
        footprints = [holding.footprint_of(one) for one in part]
        assert not any(collides(a, b) for n, a in enumerate(footprints) for b in footprints[:n])
        for group, footprint in zip(part, footprints, strict=True):
            assert group.id not in stream.executed
            stream.executed.add(group.id)
            before = [one for one in stream.in_order() if one.sequence < group.sequence]
            is_open = not stream.groups[group.id].state.has_ended
            for one in before:
                is_earlier = not one.state.has_ended and collides(
                    holding.footprint_of(one), footprint
                )
                assert not (is_open and is_earlier), f"{group.id} comes before {one.id}"
        left = []
        for group in part:
            stream.at_request()
            # Somebody may have cancelled it since it was read.
            has_ended = stream.groups[group.id].state.has_ended
            if not has_ended and group.state is GroupState.SUBMITTED:
                stream.set(group.id, GroupState.RUNNING)
                stream.at_request()
            if not has_ended:
                after = stream.set(group.id, ends(group.id))
                left += [] if after.state.has_ended else [after]
        return left

    open_groups.execute(execute)
    waiting = open_groups.waiting()
    kept.keep(open_groups.held, waiting)
    return waiting


@pytest.fixture(autouse=True, scope="module")
def small_parts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(holding, "_TOGETHER", 6)
        yield


@settings(max_examples=1000)
@given(st.integers(0), st.sampled_from([3, 1000]), st.sampled_from([300, 10**6]))
def test_what_was_kept_does_not_change_what_a_run_executes(
    seed: int, most_held: int, most_bytes: int
) -> None:
    """Runs die at any request, and between and during them groups are changed by hand."""
    stream, random = FakeStream(), Random(seed)

    change = partial(_change, stream, random)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(holding, "MOST_HELD", most_held)
        patched.setattr(holding, "MAX_BYTES", most_bytes)
        patched.setattr(holding, "MOST_EVENTS", random.choice([1, 3]))
        for _ in range(random.randrange(1, 7)):
            for _ in range(random.choice([0, 1, 3, 9])):
                _submit(stream, random)
            for _ in range(random.randrange(4)):
                change(purges=True)
            is_quiet = random.random() < 0.5
            requests = iter(range(random.choice([1, 4, 9, 10**6, 10**6, 10**6])))
            stream.at_request = partial(_disturb, requests, random, None if is_quiet else change)
            with suppress(Died):
                found = run(stream, lambda _: random.choice(ENDS))
                if is_quiet:
                    _require_right(stream, found)
                    _require_that_nothing_is_read_again(stream)
            stream.at_request = lambda: None


def _disturb(requests: Iterator[int], random: Random, change: Callable[[], None] | None) -> None:
    if next(requests, None) is None:
        raise Died
    if change is not None and random.random() < 0.1:
        change()


def _require_right(stream: FakeStream, found: Waiting) -> None:
    """Compare what a run has held, while nobody else changed a group, with what it should."""
    reached = found.reached if found.is_enough else stream.submitted
    read = [one for one in stream.in_order() if one.sequence <= reached]
    is_open = [one for one in read if not one.state.has_ended]
    assert {one.id for one in is_open} == held_by(stream) & {one.id for one in read}
    footprints = [holding.footprint_of(one, is_left=one.state is BACK) for one in is_open]
    stuck = [one.item.id for one in footprints if one.item.is_stuck]
    assert found.groups == len(is_open) - len(stuck)
    assert found.stuck in stuck if stuck else found.stuck is None
    assert found.in_all(stream.submitted + 1) == found.groups + stream.submitted - reached
    assert stream.executed >= {
        one.item.id
        for number, one in enumerate(footprints)
        if one.item.state is BACK and not any(collides(one, other) for other in footprints[:number])
    }
    holds_everything = any(one.rows is None for one in footprints)
    assert found.is_enough == (holds_everything or len(is_open) >= holding.MOST_HELD)


def _require_that_nothing_is_read_again(stream: FakeStream) -> None:
    """Run again: of what is open, or was executed before, only what is not rolled back is read."""
    kept, known = stream.row.get("held_groups"), {*stream.executed}
    may_run = bool(stream.changes) or BACK in {one.state for one in stream.groups.values()}
    stream.read.clear()
    _require_right(stream, run(stream, lambda _: BACK))
    known |= {one.id for one in stream.in_order() if not one.state.has_ended}
    # None is kept of more than `MAX_BYTES`.
    assert kept is None or known & {*stream.read} <= stream.executed
    assert may_run or not stream.read


def _submit(stream: FakeStream, random: Random) -> None:
    """Submit a group, sometimes with an id that purge has freed."""
    writes = frozenset(random.sample(range(4), random.randrange(3)))
    reads = frozenset(random.sample(range(4), random.randrange(2)))
    rows = Rows(None if random.random() < 0.05 else writes, reads)
    freed = [name for name, one in stream.groups.items() if one.state.has_ended]
    is_again = freed and random.random() < 0.3
    stream.submit(random.choice(freed) if is_again else f"g{stream.submitted + 1}", rows)


def _change(stream: FakeStream, random: Random, *, purges: bool = False) -> None:
    """Cancel, retry or settle a group, or end such a change; or let purge delete one."""
    if stream.begun and random.random() < 0.7:
        stream.make(random.choice(stream.begun))
        return
    if not stream.groups:
        return
    group = stream.groups[random.choice([*stream.groups])]
    ended = (GroupState.ROLLED_BACK, GroupState.DONE)
    if group.state is GroupState.SUBMITTED:
        stream.begin(group.id, GroupState.CANCELLED)
    elif group.state is GroupState.RUNNING:
        stream.begin(group.id, BACK)
    elif group.state is STUCK:
        stream.begin(group.id, random.choice([BACK, *ended]))
    elif group.state is BACK:
        stream.begin(group.id, random.choice(ended))
    elif purges:
        del stream.groups[group.id]


def set_by_hand(stream: FakeStream, name: str, state: GroupState) -> None:
    stream.begin(name, state)
    stream.make(stream.begun[-1])


def test_after_a_change_by_hand_only_that_group_is_read() -> None:
    stream = FakeStream()
    for number in range(1, 20):
        rows = Rows(frozenset({1, number}))
        stream.submit(f"g{number}", rows, STUCK if number == 1 else GroupState.SUBMITTED)
    for name, state, read in (
        ("g1", STUCK, 19),
        ("g1", STUCK, 0),
        ("g1", BACK, 1),
        ("g6", GroupState.CANCELLED, 0),
    ):
        stream.read.clear()
        set_by_hand(stream, name, state)
        run(stream, lambda _: STUCK)
        assert len(stream.read) == read, stream.read
        assert not stream.changes


def test_a_run_without_new_groups_and_changes_reads_no_group() -> None:
    stream = FakeStream()
    stream.submit("stuck", Rows(frozenset({1})), STUCK)
    for number in range(1, 20):
        stream.submit(f"g{number}", Rows(frozenset({1, number})))
    first = run(stream, lambda _: STUCK)
    requests: list[None] = []
    stream.at_request = lambda: requests.append(None)
    assert run(stream, lambda _: STUCK) == first
    # The next sequence, and what is kept.
    assert len(requests) == 2
    assert first.groups == 19


def test_a_change_that_is_made_after_a_run_has_seen_its_note_is_not_missed() -> None:
    stream = FakeStream()
    for number in (1, 2):
        stream.submit(f"g{number}", Rows(frozenset({1})), STUCK if number == 1 else SUBMITTED)
    run(stream, lambda _: STUCK)
    stream.begin("g1", BACK)
    for _ in range(2):
        run(stream, lambda _: STUCK)
    stream.make(stream.begun[0])
    run(stream, lambda _: GroupState.DONE)
    assert stream.groups["g2"].state is GroupState.DONE
    assert not stream.changes


def test_a_run_that_has_lost_its_lock_does_not_overwrite_what_a_later_one_keeps() -> None:
    stream = FakeStream()
    stream.submit("stuck", Rows(None), STUCK)
    slow = stream.kept_groups()
    assert slow.unchanged(stream.next_sequence()) is None
    late = OpenGroups(cast("Any", stream), slow.read(lambda _: None), 2)
    late.execute(lambda _: [])
    set_by_hand(stream, "stuck", GroupState.ROLLED_BACK)
    run(stream, lambda _: GroupState.DONE)
    slow.keep(late.held, late.waiting())
    stream.submit("new", Rows(frozenset({1})))
    run(stream, lambda _: GroupState.DONE)
    assert stream.groups["new"].state is GroupState.DONE


def test_a_run_is_told_of_groups_that_somebody_has_ended() -> None:
    """Their write times count, and what was kept of their rows is deleted."""
    stream = FakeStream()
    for number in range(1, 4):
        stream.submit(f"g{number}", Rows(frozenset({1, number})))
    run(stream, lambda name: STUCK if name == "g1" else GroupState.DONE)
    set_by_hand(stream, "g1", GroupState.ROLLED_BACK)
    set_by_hand(stream, "g2", GroupState.CANCELLED)
    run(stream, lambda _: GroupState.DONE)
    assert {("g1", 1), ("g2", 2)} <= stream.passed


def test_an_id_that_is_submitted_again_has_the_place_of_the_new_group() -> None:
    stream = FakeStream()
    stream.submit("stuck", Rows(frozenset({1})), STUCK)
    stream.submit("again", Rows(frozenset({1})))
    stream.submit("before", Rows(frozenset({1, 7})))
    run(stream, lambda _: GroupState.DONE)
    set_by_hand(stream, "again", GroupState.CANCELLED)
    del stream.groups["again"]
    stream.submit("again", Rows(frozenset({7})))
    set_by_hand(stream, "stuck", GroupState.ROLLED_BACK)
    order: list[str] = []

    def ends(name: str) -> GroupState:
        order.append(name)
        return GroupState.DONE

    run(stream, ends)
    assert order == ["before", "again"]
