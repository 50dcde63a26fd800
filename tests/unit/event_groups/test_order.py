"""The order of events and of groups: the cases of mklew/cassandra-transactions by their names."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tidemark.event_groups.definition import dag
from tidemark.event_groups.definition.row_keys import GroupFootprint, RowKey
from tidemark.event_groups.stream.concurrency import Occupied, chunks, collides

ORDER: dict[str, tuple[dict[str, list[str]], list[list[str]]]] = {
    "A→D, B→{A,C}, C→A gives B,C,A,D": (
        {"A": ["B", "C"], "B": [], "C": ["B"], "D": ["A"]},
        [["B", "C", "A", "D"]],
    ),
    "B→{A,C}, A→D gives B,A,C,D": (
        {"A": ["B"], "B": [], "C": ["B"], "D": ["A"]},
        [["B", "A", "C", "D"]],
    ),
    "4 independents give 4 lists": (
        {"A": [], "B": [], "C": [], "D": []},
        [["A"], ["B"], ["C"], ["D"]],
    ),
    "A→B + 2 give 3 lists": (
        {"A": [], "B": ["A"], "C": [], "D": []},
        [["A", "B"], ["C"], ["D"]],
    ),
    "B→A + 2 give 3 lists": (
        {"A": ["B"], "B": [], "C": [], "D": []},
        [["B", "A"], ["C"], ["D"]],
    ),
}


@pytest.mark.parametrize("case", ORDER)
def test_order_events_for_execution(case: str) -> None:
    graph, expected = ORDER[case]
    assert dag.order(graph) == expected
    assert dag.cycle(graph) is None


def test_parts_come_in_the_order_of_their_first_events() -> None:
    graph: dict[str, list[str]] = {"A": [], "B": ["C"], "C": [], "D": ["A"]}
    assert dag.order(graph) == [["A", "D"], ["C", "B"]]


def test_order_events_for_execution_of_a_cycle_gives_none() -> None:
    assert dag.cycle({"A": ["B"], "B": ["A"], "C": []}) in (["A", "B", "A"], ["B", "A", "B"])


def test_each_event_of_a_cycle_depends_on_the_next() -> None:
    graph = {"A": ["B"], "B": ["C", "E"], "C": ["A"], "D": ["A"], "E": []}
    cycle = dag.cycle(graph)
    assert cycle is not None
    assert (cycle[0], sorted(cycle[1:])) == (cycle[-1], ["A", "B", "C"])
    assert all(after in graph[name] for name, after in pairwise(cycle))


def test_a_graph_is_drawn_in_waves_and_as_a_flowchart() -> None:
    graph = {"A": ["B"], "B": [], "C": ["A", "B"]}
    says = {"A": "inserts", "B": 'the "first"', "C": "deletes"}
    assert dag.as_text(graph, says) == [
        *("wave 1", '  B: the "first"'),
        *("wave 2", "  A: inserts  after B"),
        *("wave 3", "  C: deletes  after A, B"),
    ]
    assert dag.as_mermaid(graph, says).splitlines() == [
        "flowchart TD",
        '    e0["A<br>inserts"]',
        '    e1["B<br>the &quot;first&quot;"]',
        '    e2["C<br>deletes"]',
        *("    e1 --> e0", "    e0 --> e2", "    e1 --> e2"),
    ]


def test_events_of_a_wave_only_depend_on_earlier_ones() -> None:
    assert dag.waves({"A": ["B"], "B": [], "C": ["B"], "D": ["A", "C"]}) == [
        ["B"],
        ["A", "C"],
        ["D"],
    ]
    assert dag.dependents({"A": ["B"], "B": [], "C": ["A"], "D": []}, ["B"]) == {"A", "C"}


def row(name: str) -> RowKey:
    return "t", (("id", name),)


def footprints(*groups: tuple[str, int, str]) -> list[GroupFootprint[str]]:
    return [GroupFootprint(name, size, frozenset(map(row, rows))) for name, size, rows in groups]


APART = footprints(("A", 4, "abcd"), ("B", 2, "ef"), ("C", 1, "g"), ("D", 2, "hi"))
MEETING = footprints(("A", 4, "abcd"), ("B", 2, "ea"), ("C", 1, "g"), ("D", 2, "gh"))
LAST_APART = footprints(("A", 4, "abcd"), ("B", 2, "ea"), ("C", 1, "g"), ("D", 2, "fh"))
CHUNKS = {
    "limit 1 gives 4 chunks": (APART, 1, ["A", "B", "C", "D"]),
    "limit 25 gives 1 chunk": (APART, 25, ["ABCD"]),
    "limit 6 gives [A,B],[C,D]": (APART, 6, ["AB", "CD"]),
    "limit 7 gives [A,B,C],[D]": (APART, 7, ["ABC", "D"]),
    "overlap with 25 gives [A],[B,C],[D]": (MEETING, 25, ["A", "BC", "D"]),
    "overlap with 5 gives [A],[rest]": (LAST_APART, 5, ["A", "BCD"]),
}


@pytest.mark.parametrize("case", CHUNKS)
def test_divide_into_chunks(case: str) -> None:
    groups, limit, expected = CHUNKS[case]
    assert ["".join(one.item for one in part) for part in chunks(groups, limit)] == expected


def test_what_collides_with_all_collides_with_the_first() -> None:
    occupied: Occupied[str] = Occupied()
    everything = GroupFootprint("X", 1, None)
    assert occupied.is_empty
    assert occupied.meeting(everything) is None
    for group in APART:
        occupied.add(group)
    assert not occupied.is_empty
    assert occupied.meeting(everything) == "A"


def test_groups_whose_rows_nobody_has_declared_run_alone() -> None:
    groups = [*APART[:1], GroupFootprint("X", 1, None), *APART[1:3]]
    assert [[one.item for one in part] for part in chunks(groups, 25)] == [["A"], ["X"], ["B", "C"]]


def test_a_part_has_no_row_of_a_partition_that_it_has() -> None:
    keys: list[RowKey] = [
        ("t", (("id", "1"), ("n", "1"))),
        ("t", (("id", "1"), ("n", "2"))),
        ("u", (("id", "1"),)),
        ("t", (("id", "1"),)),
        ("t", (("id", "2"), ("n", "1"))),
        ("t", (("id", "1"), ("n", "1"))),
    ]
    groups = [GroupFootprint(place, 1, frozenset({key})) for place, key in enumerate(keys)]
    parts = [[one.item for one in part] for part in chunks(groups, 25)]
    assert parts == [[0, 1, 2], [3, 4], [5]]


def test_a_partition_collides_with_its_rows_and_with_no_other() -> None:
    whole, one, other = (
        GroupFootprint("", 1, frozenset({("t", key)}))
        for key in ((("id", "1"),), (("id", "1"), ("n", "1")), (("id", "1"), ("n", "2")))
    )
    assert collides(whole, one)
    assert not collides(one, other)
    assert not collides(one, GroupFootprint("", 1, frozenset({("u", (("id", "1"),))})))
