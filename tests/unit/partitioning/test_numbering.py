"""The rule of numbering against a model that tries every numbering."""

from __future__ import annotations

from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.unit.conftest import Examples
from tests.unit.partitioning.numbering_model import Numbering, Series, agreement_of, numbering
from tidemark.numbering import rule
from tidemark.spark.local_rows import local_rows

Journal = dict[str, Series]
LAST = 12


@st.composite
def series(draw: st.DrawFn) -> Series:
    """Draw what is left of a numbering after deletes, losses, purges and foreign writes."""
    tagged = draw(st.lists(st.booleans(), min_size=1, max_size=LAST))
    numbers = {nr: sum(tagged[:nr]) for nr, is_tagged in enumerate(tagged, 1) if is_tagged}
    front = draw(st.integers(0, len(tagged)))
    lost = draw(st.sets(st.integers(1, LAST), max_size=4))
    events: dict[int, bool] = {
        nr: is_tagged for nr, is_tagged in enumerate(tagged, 1) if nr > front and nr not in lost
    }
    rows: list[tuple[int, int]] = []
    for nr, number in numbers.items():
        change = draw(st.sampled_from(["there"] * 4 + ["purged"] * 2 + ["foreign"]))
        off = draw(st.sampled_from([-2, -1, 1, 3])) if change == "foreign" else 0
        if change != "purged" and number + off > 0:
            rows.append((nr, number + off))
    progress, has_progress = None, draw(st.booleans())
    if numbers and has_progress:
        nr = draw(st.sampled_from(sorted(numbers)))
        progress = (nr, max(1, numbers[nr] + draw(st.sampled_from([0, 0, 0, -1, 1, 4]))))
    return Series(events, rows, progress)


def found(spark: SparkSession, journal: Journal) -> dict[str, Numbering]:
    entries, rows, progress = [], [], []
    for pid, one in journal.items():
        in_rows = {nr for nr, _ in one.rows}
        for nr, is_tagged in one.events.items():
            is_counted = is_tagged or nr in in_rows
            entries.append((pid, "t" if is_counted else None, nr, nr, True))
        for nr in in_rows - one.events.keys():
            entries.append((pid, "t", nr, nr, False))
        rows += [(pid, "t", nr, nr, number) for nr, number in one.rows]
        progress += [(pid, "t", *one.progress)] if one.progress else []
    kinds = "persistence_id string, tag string, sequence_nr bigint"
    placed = rule.points(
        local_rows(spark, entries, f"{kinds}, ticks bigint, is_present boolean"),
        local_rows(spark, rows, f"{kinds}, ticks bigint, number bigint"),
        local_rows(spark, progress, f"{kinds}, number bigint"),
    ).localCheckpoint()
    numbers = {pid: Numbering() for pid in journal}
    for row in rule.numbered(placed, rule.known_shifts(placed)).collect():
        if row.kind == rule.PROGRESS:
            numbers[row.persistence_id].progress = row.expected_number
        elif row.kind == rule.ENTRY and row.tag is not None:
            numbers[row.persistence_id].numbers[row.sequence_nr] = row.expected_number
    return numbers


EVENTS_1_TO_5 = dict.fromkeys(range(1, 6), True)
CASES: dict[str, tuple[Series, dict[int, int]]] = {
    "nothing but events": (Series(EVENTS_1_TO_5), {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}),
    "front deleted, without evidence": (Series({6: True, 7: True}), {6: 1, 7: 2}),
    "front deleted, progress": (Series({6: True, 7: True}, progress=(6, 4)), {6: 4, 7: 5}),
    "front deleted, rows before progress": (
        Series({6: True, 7: True}, [(7, 4)], (7, 6)),
        {6: 3, 7: 4},
    ),
    "progress of a deleted event, nothing between": (
        Series({6: True, 7: True}, progress=(5, 3)),
        {6: 4, 7: 5},
    ),
    "lost event, its row": (
        Series({1: True, 2: True, 4: True}, [(3, 3)]),
        {1: 1, 2: 2, 3: 3, 4: 4},
    ),
    "lost event, rows behind it": (
        Series({1: True, 2: True, 4: True, 5: True}, [(4, 4), (5, 5)]),
        {1: 1, 2: 2, 4: 4, 5: 5},
    ),
    "lost event, progress behind it": (
        Series({1: True, 2: True, 4: True}, progress=(4, 4)),
        {1: 1, 2: 2, 4: 4},
    ),
    "lost event, no evidence": (Series({1: True, 2: True, 4: True}), {1: 1, 2: 2, 4: 3}),
    "lost event, a number that cannot be": (
        Series({1: True, 2: True, 4: True}, [(4, 9)]),
        {1: 1, 2: 2, 4: 3},
    ),
    "all rows of a whole id are foreign": (
        Series({1: True, 2: True}, [(1, 7), (2, 8)], (2, 8)),
        {1: 1, 2: 2},
    ),
    "progress that its row does not confirm": (
        Series({6: True, 7: True, 8: True}, [(6, 5), (7, 6), (8, 9)], (8, 8)),
        {6: 5, 7: 6, 8: 7},
    ),
    "progress that its row confirms against most rows": (
        Series({6: True, 7: True, 8: True}, [(6, 3), (7, 4), (8, 8)], (8, 8)),
        {6: 6, 7: 7, 8: 8},
    ),
    "tag in the row only": (
        Series({1: False, 2: False, 3: True}, [(1, 1), (2, 2), (3, 3)]),
        {1: 1, 2: 2, 3: 3},
    ),
    "two holes, the evidence behind the second bounds what is before it": (
        Series({1: True, 5: True, 7: True}, [(7, 6)]),
        {1: 1, 5: 4, 7: 6},
    ),
    "one foreign row against many": (
        Series({3: True, 5: True, 6: True, 7: True}, [(3, 3), (5, 4), (6, 5), (7, 6)]),
        {3: 3, 5: 4, 6: 5, 7: 6},
    ),
}


def test_numbers_of_cases(spark: SparkSession) -> None:
    journal = {name: one for name, (one, _) in CASES.items()}
    numbers = found(spark, journal)
    for name, (one, expected) in CASES.items():
        assert numbers[name].numbers == expected, name
        assert numbering(one).numbers == expected, f"model: {name}"


def test_numbers_are_those_of_the_model(spark: SparkSession, examples: Examples) -> None:
    journal = {f"p{i}": one for i, one in enumerate(examples(series(), 400))}
    numbers = found(spark, journal)
    for pid, one in journal.items():
        expected = numbering(one)
        assert agreement_of(one, numbers[pid]) == expected.agreement, one
        is_tie = numbers[pid] != Numbering(expected.numbers, expected.progress)
        assert not is_tie or _is_contradicted(one, expected), one
    assert any(_is_contradicted(one, numbering(one)) for one in journal.values())


def _is_contradicted(one: Series, numbers: Numbering) -> bool:
    rows = any(numbers.numbers[nr] != number for nr, number in one.rows)
    return rows or (one.progress is not None and numbers.progress != one.progress[1])
