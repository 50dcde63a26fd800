"""The numbering of messages that were deleted before or while they were read."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.journal.shapes import WHOLE_MESSAGES
from tidemark.journal.tables import PAYLOAD_COLUMNS
from tidemark.spark.local_rows import local_rows
from tidemark.spark.read_once import shuffled_once
from tidemark.tagging import numbering, transform

RANKED = (
    "persistence_id string, sequence_nr bigint, ticks bigint, tag string, tag_position int,"
    " rank bigint"
)
KNOWN = "persistence_id string, known_to bigint, numbers map<string,bigint>, is_whole boolean"
ALL_KEYS = "spark.sql.requireAllClusterKeysForCoPartition"
PROGRESS = "persistence_id string, tag string, progress_sequence_nr bigint, progress_number bigint"
DELETED = "persistence_id string, deleted_to bigint"


def events(spark: SparkSession, **ids: list[int]) -> DataFrame:
    """Return events with these sequence nrs; all have the tag t, each second one also u."""
    rows: list[tuple[Any, ...]] = []
    for persistence_id, numbers in ids.items():
        for rank, nr in enumerate(numbers, 1):
            rows.append((persistence_id, nr, nr, "t", 0, rank))
            if nr % 2 == 0:
                evens = [other for other in numbers if other % 2 == 0 and other <= nr]
                rows.append((persistence_id, nr, nr, "u", 1, len(evens)))
    return local_rows(spark, rows, RANKED)


def ranks(frame: DataFrame, persistence_id: str, tag: str) -> dict[int, int]:
    return {
        row.sequence_nr: row.rank
        for row in frame.collect()
        if (row.persistence_id, row.tag) == (persistence_id, tag)
    }


def test_what_was_deleted_while_it_was_read_is_as_if_it_had_been_before(
    spark: SparkSession,
) -> None:
    """Of `cut` 1 to 3 came out, 4 to 6 did not; of `early` all, before they were deleted."""
    read = events(
        spark,
        cut=[1, 2, 3, 7, 8],
        early=[1, 2, 3, 4, 5, 6, 7],
        behind=[7, 8],
        lost=[1, 2, 4],
        ended=[1, 2, 3],
    )
    deleted = local_rows(spark, [("cut", 6), ("early", 6), ("behind", 6), ("ended", 9)], DELETED)
    torn = numbering.torn(read, numbering.spans(read), deleted)
    assert [tuple(row) for row in torn.collect()] == [("cut", 6)]
    ranked = numbering.ranked_anew(numbering.without_torn(read, torn))
    assert ranks(ranked, "cut", "t") == {7: 1, 8: 2}
    assert ranks(ranked, "cut", "u") == {8: 1}
    for untouched in ("early", "behind", "lost", "ended"):
        assert ranks(ranked, untouched, "t") == ranks(read, untouched, "t")


@pytest.mark.parametrize(
    ("known", "progress", "shift", "contradiction"),
    [
        # 21 to 25 are read. The stored state reaches to 20 and has the numbers of its tags.
        ((20, {"t": 7}, True), None, {"t": 7, "u": 0}, None),
        ((20, {"t": 7}, False), None, {"t": 7, "u": 0}, None),
        ((20, {"t": 7}, False), ("u", 24, 5), {"t": 7, "u": 3}, None),
        # The stored state reaches to 10 only: 11 to 20 were deleted unseen.
        ((10, {"t": 7, "u": 2}, True), None, {"t": 0, "u": 0}, None),
        ((10, {"t": 7, "u": 2}, True), ("t", 25, 17), {"t": 12, "u": 0}, None),
        # Pekko's progress lags behind our rows; it can be neither this low nor higher.
        ((20, {"t": 7}, True), ("t", 18, 5), {"t": 7, "u": 0}, None),
        ((20, {"t": 7}, True), ("t", 18, 4), {"t": 7, "u": 0}, "tag pid sequence nr 4 "),
        ((20, {"t": 7}, True), ("t", 18, 8), {"t": 7, "u": 0}, "tag pid sequence nr 8 "),
        ((20, {"t": 7}, True), ("t", 20, 6), {"t": 7, "u": 0}, "tag pid sequence nr 6 "),
        ((20, {"t": 7}, True), ("t", 23, 10), {"t": 7, "u": 0}, None),
        ((20, {"t": 7}, True), ("t", 23, 9), {"t": 7, "u": 0}, "tag pid sequence nr 9 "),
        ((20, {"t": 7}, True), ("t", 26, 13), {"t": 7, "u": 0}, "at sequence nr 26"),
    ],
)
def test_counting_begins_where_nothing_can_be_missing(
    spark: SparkSession,
    known: tuple[int, dict[str, int], bool],
    progress: tuple[str, int, int] | None,
    shift: dict[str, int],
    contradiction: str | None,
) -> None:
    read = events(spark, p=[21, 22, 23, 24, 25])
    numbered = local_rows(spark, [("p", *progress)] if progress else [], PROGRESS)
    series = numbering.anchored(
        read, spark.createDataFrame([("p", *known)], KNOWN), numbering.anchors(numbered, None)
    ).collect()
    assert {row.tag: row["shift"] for row in series} == shift
    [stated] = {row.contradiction for row in series if row.contradiction} or {None}
    assert (contradiction is None) == (stated is None)
    assert (contradiction or "") in (stated or "")


def test_rows_are_asked_for_where_neither_what_is_known_nor_progress_tells(
    spark: SparkSession,
) -> None:
    read = events(spark, p=[21, 22], q=[21, 22], new=[1, 2], r=[21, 22])
    last_rows = spark.createDataFrame(
        [("p", 20, {"t": 7}, False), ("q", 10, {"t": 7, "u": 1}, True), ("r", 20, {}, True)], KNOWN
    )
    progress = local_rows(spark, [("q", "t", 20, 9), ("q", "u", 19, 3)], PROGRESS)
    asked = numbering.unanchored(read, numbering.spans(read), last_rows, progress).collect()
    assert sorted((row.persistence_id, row.tag, row.highest) for row in asked) == [
        ("p", "u", 22),
        ("q", "u", 22),
    ]


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_payloads_are_not_shuffled_a_second_time(
    spark: SparkSession, partitions: None, adaptive: str
) -> None:
    """Payloads are most of the data of a run, so only keys and numbers may be shuffled again."""
    key = "spark.sql.adaptive.enabled"
    before = {name: str(spark.conf.get(name)) for name in (key, ALL_KEYS)}
    spark.conf.set(ALL_KEYS, "false")
    spark.conf.set(key, adaptive)
    try:
        read = spark.range(0, 100, 1, 4).selectExpr(
            "concat('p', id % 7) AS persistence_id",
            "id AS sequence_nr",
            "id AS ticks",
            "cast(id AS string) AS timestamp",
            "0L AS time_bucket",
            "array('t', 'u') AS tags",
            "cast(null AS string) AS cause",
            *[f"cast('1' AS {WHOLE_MESSAGES[name]}) AS {name}" for name in PAYLOAD_COLUMNS],
        )
        kept = shuffled_once(read, "persistence_id")
        ranked = numbering.ranked(kept.drop(*PAYLOAD_COLUMNS)).localCheckpoint()
        rows = transform.with_payload(ranked.where(F.col("tag").isNotNull()), kept)
        assert payload_exchanges(rows._jdf.queryExecution().executedPlan()) == 0
        assert rows.count() == 200
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def payload_exchanges(plan: Any) -> int:
    """Return the number of exchanges of a plan that have a payload column in their output."""
    if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
        plan = plan.executedPlan()
    output = [plan.output().apply(n).name() for n in range(plan.output().size())]
    is_one = "Exchange" in plan.getClass().getSimpleName() and "event" in output
    children = plan.children()
    below = sum(payload_exchanges(children.apply(n)) for n in range(children.size()))
    return int(is_one) + below
