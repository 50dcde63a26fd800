"""The rules of a journal in PostgreSQL, on local frames."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidemark.journals.r2dbc.shapes import PREDECESSORS, ROWS
from tidemark.partitioning import keys
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import ddl
from tidemark.validate import shapes
from tidemark.validate.findings.check import Severity
from tidemark.validate.r2dbc import checks, rules

Row = tuple[int, int, bool]
"""Sequence nr, time in ms, and whether it is a deletion marker."""


def rows_of(spark: SparkSession, rows: Sequence[Row], pid: str = "Order|1") -> DataFrame:
    return local_rows(
        spark,
        [
            (
                *(pid, number, f"t{ms}", ms * keys.TICKS_PER_MS, 0, None),
                *(keys.slice_of(pid), keys.entity_type(pid), is_marker),
            )
            for number, ms, is_marker in rows
        ],
        ddl(ROWS),
    )


def found(frame: DataFrame) -> set[tuple[object, ...]]:
    return {(row["check_name"], row["number"], row["expected"]) for row in frame.collect()}


def event(number: int, ms: int = 0) -> Row:
    return number, ms, False


def marker(number: int, ms: int = 0) -> Row:
    return number, ms, True


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], set()),
        ([event(1), event(2), event(3)], set()),
        ([event(1), event(2), event(5)], {("sequence_nr_gap", 5, 3)}),
        ([event(4), event(5)], {("sequence_nr_missing_head", 4, 1)}),
        # A front was deleted: the first number is not 1, and the marker is younger.
        ([marker(5, 90), event(6, 1), event(7, 2)], set()),
        ([marker(5), event(8)], {("sequence_nr_gap", 8, 6)}),
        ([marker(5)], set()),
        ([event(3), marker(5), event(6)], {
            ("sequence_nr_missing_head", 3, 1), ("row_before_deletion_marker", 3, 5),
        }),
        ([marker(3), marker(5)], {("row_before_deletion_marker", 3, 5)}),
        # The time of a marker is compared neither with the row before it nor with the one after.
        ([event(1, 90), marker(2, 10), event(3, 5)], {("row_before_deletion_marker", 1, 2)}),
        # A persist of several events has one time.
        ([event(1, 7), event(2, 7)], set()),
        ([event(1, 7), event(2, 6), event(3, 8)], {("event_out_of_order", 2, None)}),
    ],
)  # fmt: skip
def test_numbers_and_times(
    spark: SparkSession, rows: list[Row], expected: set[tuple[object, ...]]
) -> None:
    followed = rules.followed(rows_of(spark, rows))
    assert found(rules.row_findings(followed)) == expected


@pytest.mark.parametrize(
    ("previous", "expected"),
    [
        (None, {("sequence_nr_missing_head", 6, 1)}),
        ((5, 9, False), {("event_out_of_order", 6, None)}),
        ((5, 1, False), set()),
        ((5, 9, True), set()),
        ((3, 1, False), {("sequence_nr_gap", 6, 4)}),
        ((3, 9, True), {("sequence_nr_gap", 6, 4)}),
    ],
)
def test_the_row_before_those_that_were_read(
    spark: SparkSession, previous: Row | None, expected: set[tuple[object, ...]]
) -> None:
    followed = rules.followed(rows_of(spark, [event(6, 5), event(7, 6)]))
    unknown = rules.without_predecessor(followed)
    assert [row["sequence_nr"] for row in unknown.collect()] == [6]
    read = [] if previous is None else [previous]
    predecessors = local_rows(
        spark,
        [("Order|1", 6, nr, ms * keys.TICKS_PER_MS, is_marker) for nr, ms, is_marker in read],
        ddl(PREDECESSORS),
    )
    assert found(rules.row_findings(rules.with_read(followed, predecessors))) == expected


def test_first_numbers_need_no_read(spark: SparkSession) -> None:
    followed = rules.followed(rows_of(spark, [event(1), event(2), event(4)]))
    assert [row["sequence_nr"] for row in rules.without_predecessor(followed).collect()] == [4]


@pytest.mark.parametrize(
    "pid", ["Order|1", "no type", "", "Rep|p-0|R1", "a|b|c|d", "polygenelubricants", "Ü|😀"]
)
def test_slices_and_entity_types(spark: SparkSession, pid: str) -> None:
    right = rows_of(spark, [event(1)], pid)
    assert found(rules.row_findings(rules.followed(right))) == set()
    wrong = right.selectExpr(
        *(name for name in ROWS if name not in ("slice", "entity_type")),
        "slice + 1 AS slice",
        "concat(entity_type, 'x') AS entity_type",
    )
    assert found(rules.row_findings(rules.followed(wrong))) == {
        ("wrong_slice", 1, None),
        ("wrong_entity_type", 1, None),
    }


def test_a_row_in_the_table_of_another_data_partition(spark: SparkSession) -> None:
    outside = rows_of(spark, [event(7)])
    assert found(rules.misplaced(outside)) == {("wrong_slice", 7, None)}
    wrong = outside.withColumn("slice", outside["slice"] + 1)
    assert found(rules.misplaced(wrong)) == set()


@pytest.mark.parametrize(("events", "is_found"), [(2, False), (3, True), (4, True)])
def test_events_of_one_time(spark: SparkSession, events: int, is_found: bool) -> None:
    rows = rows_of(spark, [event(number, 5) for number in range(1, events + 1)])
    rows = rows.unionByName(rows_of(spark, [marker(9, 5), event(10, 6)]))
    crowded = rules.crowded_times(rows, most=3).collect()
    assert [(row["number"], row["tag"]) for row in crowded] == [(events, "Order")] * is_found
    # The reader reads each entity type separately.
    others = rows.unionByName(rows_of(spark, [event(1, 5)], "Cart|1"))
    assert rules.crowded_times(others, most=3).count() == is_found


def test_events_in_the_future(spark: SparkSession) -> None:
    rows = rows_of(spark, [event(7, 5), event(8, 6)]).unionByName(
        rows_of(spark, [marker(3, 5)], "Order|2")
    )
    assert found(rules.in_future(rows)) == {("events_in_future", 7, None)}


@pytest.mark.parametrize(
    ("ms", "check", "is_held"),
    [
        (1000, checks.SEQUENCE_NR_GAP.name, True),
        (1000, checks.SEQUENCE_NR_MISSING_HEAD.name, True),
        (999, checks.SEQUENCE_NR_GAP.name, False),
        # No commit corrects it.
        (1000, checks.ROW_BEFORE_DELETION_MARKER.name, False),
        (None, checks.SEQUENCE_NR_GAP.name, False),
    ],
)
def test_missing_numbers_before_a_young_row_may_be_committed_yet(
    spark: SparkSession, ms: int | None, check: str, *, is_held: bool
) -> None:
    ticks = keys.UUID_EPOCH_TICKS + (ms or 0) * keys.TICKS_PER_MS
    uuid = None if ms is None else keys.ticks_timeuuid(ticks, clock_sequence=0, node=0)
    row = (0, "Order|1", "", check, 3, 2, "", uuid)
    findings = local_rows(spark, [row], ddl({**shapes.FINDINGS, "timestamp": "string"}))
    held = rules.held_buckets(findings.where(rules.may_be_committed(1000))).collect()
    assert [(row["time_bucket"], row["findings"]) for row in held] == [(0, 1)] * is_held
    assert [row["first"]["number"] for row in held] == [3] * is_held


def test_what_only_warns() -> None:
    warning = {check.name for check in checks.CHECKS if check.severity is Severity.WARNS}
    assert warning == {
        "event_out_of_order",
        "too_many_rows_of_one_time",
        "events_in_future",
        "snapshot_beyond_events",
    }
    assert all(check.for_people for check in checks.CHECKS if check.severity is Severity.BLOCKS)
