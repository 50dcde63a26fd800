"""Which groups collide, which keys are of one row, and in which order events are taken back."""

from __future__ import annotations

import struct
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.event_groups.definition.file import GroupDefinition
from tidemark.event_groups.definition.model import Group
from tidemark.event_groups.definition.row_keys import GroupFootprint, RowKey, canonical
from tidemark.event_groups.driver_engine import undo
from tidemark.event_groups.driver_engine.undo import ColumnState
from tidemark.event_groups.execution.rollback import in_order, is_needed, own_times, times_of
from tidemark.event_groups.stream.concurrency import Occupied, collides
from tidemark.event_groups.stream.holding import Held, OpenGroup, parse_known
from tidemark.event_groups.stream.states import EventState, GroupState, StoredEvent

SAME = {
    "uuid": ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "int": ["17", "017", "+17", " 17 "],
    "varint": ["100000000000000000000000000000", "+100000000000000000000000000000"],
    "decimal": ["1.0", "1.00", "1", "1E0", "0.1E1"],
    "double": ["1", "1.0", "1e0"],
    "float": ["0.1", "0.10000000149011612"],
    "boolean": ["true", "TRUE"],
    "blob": ["0xAB", "0xab", "0Xab"],
    "inet": ["FE80::1", "fe80:0:0:0:0:0:0:1"],
    "time": ["1:00:00", "01:00:00.0", "01:00:00.000000000"],
    "timestamp": [
        "2024-03-01T12:00:00Z",
        "2024-03-01 13:00:00+01:00",
        "2024-03-01 12:00:00.000Z",
        "1709294400000",
    ],
    "date": ["2024-03-01"],
}
OTHER = {
    "text": ["a", "A", " a", "017", "17"],
    "ascii": ["a", "A"],
    "int": ["1", "-1", "10"],
    "decimal": ["1.01", "1.0", "10", "-1", "0", "0.001"],
    "timestamp": ["2024-03-01T12:00:00Z", "2024-03-01T12:00:00.001Z"],
    "time": ["01:00:00", "01:00:00.000000001"],
}
WRONG = {
    "uuid": "17",
    "int": "1_7",
    "bigint": "1.5",
    "decimal": "NaN",
    "boolean": "yes",
    "blob": "0xABC",
    "inet": "300.0.0.1",
    "time": "noon",
    "timestamp": "2024-03-01T12:00:00",
    "date": "20240301",
    "float": "1e300",
}


@pytest.mark.parametrize("kind", SAME)
def test_values_that_cassandra_takes_for_the_same_have_one_form(kind: str) -> None:
    forms = {canonical(kind, text) for text in SAME[kind]}
    assert len(forms) == 1
    assert {canonical(kind, form) for form in forms} == forms


@pytest.mark.parametrize("kind", OTHER)
def test_other_values_have_other_forms(kind: str) -> None:
    assert len({canonical(kind, text) for text in OTHER[kind]}) == len(OTHER[kind])


@pytest.mark.parametrize("kind", WRONG)
def test_what_cannot_be_compared_is_refused_with_what_to_write(kind: str) -> None:
    with pytest.raises(ValueError, match=rf" is no {kind}; write "):
        canonical(kind, WRONG[kind])


@given(st.decimals(allow_nan=False, allow_infinity=False), st.integers(0, 5))
def test_decimals_are_compared_by_their_value(value: Decimal, zeros: int) -> None:
    sign, digits, exponent = value.as_tuple()
    longer = Decimal((sign, digits + (0,) * zeros, int(exponent) - zeros))
    assert canonical("decimal", str(longer)) == canonical("decimal", str(value))
    assert Decimal(canonical("decimal", str(value))) == value


@given(st.uuids(), st.booleans())
def test_uuids_are_compared_without_regard_to_their_letters(value: UUID, is_upper: bool) -> None:
    text = str(value).upper() if is_upper else str(value)
    assert canonical("uuid", text) == str(value)


@given(st.floats(width=32, allow_nan=False))
def test_a_float_has_the_value_that_cassandra_stores(value: float) -> None:
    [stored] = struct.unpack("f", struct.pack("f", float(canonical("float", repr(value)))))
    assert stored == value


KEYS: list[RowKey] = [
    *(("t", (("id", a), ("n", b))) for a in "12" for b in "12"),
    *(("t", (("id", a),)) for a in "12"),
    ("u", (("id", "1"),)),
]
KEY_SETS = st.frozensets(st.sampled_from(KEYS), max_size=3)
EXTENTS = st.builds(GroupFootprint, st.just(0), st.just(1), st.none() | KEY_SETS, KEY_SETS)


def may_be_one_row(one: RowKey, other: RowKey) -> bool:
    mine, its = dict(one[1]), dict(other[1])
    return one[0] == other[0] and all(mine[n] == its[n] for n in mine.keys() & its.keys())


def model(one: GroupFootprint[int], other: GroupFootprint[int]) -> bool:
    if one.rows is None or other.rows is None:
        return True
    pairs = [
        *((a, b) for a in one.rows for b in {*other.rows, *other.reads}),
        *((a, b) for a in one.reads for b in other.rows),
    ]
    return any(may_be_one_row(a, b) for a, b in pairs)


@given(EXTENTS, EXTENTS)
def test_two_groups_collide_if_one_writes_what_the_other_reads_or_writes(
    one: GroupFootprint[int], other: GroupFootprint[int]
) -> None:
    assert collides(one, other) == model(one, other) == collides(other, one)


@given(st.lists(EXTENTS, max_size=6))
def test_a_group_meets_many_others_as_it_meets_one_of_them(
    groups: list[GroupFootprint[int]],
) -> None:
    numbered = [GroupFootprint(n, one.events, one.rows, one.reads) for n, one in enumerate(groups)]
    occupied: Occupied[int] = Occupied()
    for place, group in enumerate(numbered):
        found = occupied.meeting(group)
        meeting = [one.item for one in numbered[:place] if model(one, group)]
        assert (found in meeting) if meeting else found is None
        occupied.add(group)


@given(st.lists(st.tuples(EXTENTS, st.booleans()), max_size=6), EXTENTS)
def test_groups_that_must_wait_are_the_same_after_they_were_kept(
    groups: list[tuple[GroupFootprint[int], bool]], group: GroupFootprint[int]
) -> None:
    held = Held()
    for place, (one, is_stuck) in enumerate(groups):
        held.holder(of_group(one, place, is_stuck=is_stuck))
    kept, known = Held(), parse_known(held.as_text(7))
    assert known.reached == 7
    assert all(kept.holder(one) for one in known.groups)
    assert (kept.groups, kept.are_enough) == (held.groups, held.are_enough)
    asked = of_group(group, 9, is_stuck=False)
    assert (kept.holder(asked) is None) == (held.holder(asked) is None)


def of_group(one: GroupFootprint[int], place: int, *, is_stuck: bool) -> GroupFootprint[OpenGroup]:
    state = GroupState.ROLLBACK_FAILED if is_stuck else GroupState.SUBMITTED
    return GroupFootprint(OpenGroup(f"g{place}", place, state), one.events, one.rows, one.reads)


@st.composite
def executed(draw: st.DrawFn) -> tuple[dict[str, list[str]], dict[str, StoredEvent]]:
    """Return a graph and its events as they were executed: later than those they depend on."""
    names = [f"e{number}" for number in range(draw(st.integers(1, 8)))]
    graph = {
        name: draw(st.lists(st.sampled_from(names[:place]), unique=True)) if place else []
        for place, name in enumerate(names)
    }
    stored: dict[str, StoredEvent] = {}
    remaining, moment = [*names], 100
    while remaining:
        ready = [name for name in remaining if not {*graph[name]} & {*remaining}]
        name = draw(st.sampled_from(ready))
        remaining.remove(name)
        moment += 1
        writes = draw(st.booleans())
        stored[name] = StoredEvent(EventState.DONE, [{}], moment if writes else None)
    return {name: graph[name] for name in draw(st.permutations(names))}, stored


@given(executed())
def test_what_was_written_last_is_taken_back_first(
    case: tuple[dict[str, list[str]], dict[str, StoredEvent]],
) -> None:
    graph, stored = case
    order = in_order(graph, stored, list(graph))
    assert sorted(order) == sorted(graph)
    times = [time for name in order if (time := stored[name].write_time) is not None]
    assert times == sorted(times, reverse=True)
    for name, before in graph.items():
        assert all(order.index(one) > order.index(name) for one in before)


INSERT = "INSERT INTO shop.t (id, n) VALUES ('1', 1)"
BACKS = [{"statement": "DELETE FROM shop.t WHERE id = '1'"}] * 2
WAYS_BACK = GroupDefinition(
    Group.model_validate(
        {
            "group": "g",
            "events": [
                {"name": "restored", "statement": INSERT},
                {"name": "left", "statement": INSERT, "rollback": "none"},
                {"name": "own", "statement": INSERT, "rollback": {"statements": BACKS}},
                {"name": "read", "statement": "SELECT n FROM shop.t WHERE id = '1'"},
                {"name": "called", "rollback": {"call": "f:back"}},
                {"name": "asked", "rollback": {"ask": {"http": "http://back"}}},
                {"name": "loaded", "library": {"name": "rules", "version": "1.2"}},
                {"name": "nothing"},
            ],
        }
    )
)


def test_each_way_back_has_later_write_times_than_the_one_before_it() -> None:
    """Statements of the user have a time for each row; what is restored has three at least."""
    stored = {
        name: StoredEvent(EventState.DONE, [{}] * rows)
        for name, rows in {"restored": 7, "own": 2, "asked": 1}.items()
    }
    assert times_of(WAYS_BACK, stored, ["own", "restored", "asked"], 100) == {
        "own": range(101, 105),
        "restored": range(105, 108),
        "asked": range(108, 111),
    }
    one_row = {"own": StoredEvent(EventState.DONE, [{}])}
    assert times_of(WAYS_BACK, one_row, ["own"], 100) == {"own": range(101, 104)}


def test_the_times_of_a_way_back_follow_each_other_and_fit_into_it() -> None:
    assert 0 < undo.STAYS_LATER < undo.MARKER_LATER < undo.TIME_OF_EVENT


def test_own_times_are_those_of_the_events_and_of_what_is_put_back() -> None:
    stored = {
        "restored": StoredEvent(EventState.DONE, [{}], 50),
        "left": StoredEvent(EventState.DONE, [{}], 60),
        "own": StoredEvent(EventState.DONE, [{}], 70),
        "called": StoredEvent(EventState.DONE, [{}]),
    }
    times = {
        "own": range(101, 105),
        "restored": range(105, 108),
        "left": range(108, 111),
        "called": range(111, 114),
    }
    assert own_times(WAYS_BACK, stored, times) == {
        *(50, 70),
        *(101, 102, 103, 104),
        *(105, 108, 111),
    }


@pytest.mark.parametrize("state", EventState)
def test_only_what_may_have_been_done_is_taken_back(state: EventState) -> None:
    is_begun = state.value in ("running", "done", "failed", "rollback-asked", "rollback-failed")
    written, unwritten = StoredEvent(state, [{}], 50), StoredEvent(state, [{}])
    for name in ("restored", "left", "own"):
        assert is_needed(WAYS_BACK, name, written) == is_begun
        assert not is_needed(WAYS_BACK, name, unwritten)
    for name in ("called", "asked", "loaded"):
        assert is_needed(WAYS_BACK, name, unwritten) == is_begun
    for name in ("read", "nothing"):
        assert not is_needed(WAYS_BACK, name, unwritten)


@pytest.mark.parametrize(
    ("now", "is_written", "gets_image"),
    [
        # is own, is null, is older, may be cleared
        ((True, False, False, False), True, True),
        ((False, True, False, True), True, True),
        ((False, True, False, False), True, False),
        ((False, False, True, True), True, False),
        ((False, False, False, True), False, False),
        ((False, False, False, False), False, False),
    ],
)
def test_what_is_put_back_follows_from_the_write_time(
    now: tuple[bool, bool, bool, bool], *, is_written: bool, gets_image: bool
) -> None:
    found = ColumnState(*now)
    assert (found.is_written, found.gets_image) == (is_written, gets_image)


def test_an_address_is_one_in_both_notations() -> None:
    assert canonical("inet", "::ffff:10.0.0.1") == canonical("inet", "10.0.0.1")
    with pytest.raises(ValueError, match="is no inet"):
        canonical("inet", "fe80::1%1")


def test_keys_of_types_with_parts_are_not_compared() -> None:
    with pytest.raises(ValueError, match="cannot be compared; leave out `rows`"):
        canonical("frozen<list<int>>", "[1, 2]")
