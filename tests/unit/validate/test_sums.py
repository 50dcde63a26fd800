"""Which persistence ids are compared at all, and that no other would have a finding."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.unit.conftest import Examples
from tests.unit.project.stored_history_frames import BOUNDS, keys_of
from tests.unit.project.stored_history_model import (
    History,
    Journal,
    broken_history,
    damaged_history,
)
from tidemark.validate.tag_views.compare import Compared, compare
from tidemark.validate.tag_views.keys import once
from tidemark.validate.tag_views.prefilter import SuspectIds, sums_of

SIZE = BOUNDS.target_partition_size
WHOLE = History.whole((0, "ab"), (1, "a"), (1, ""), (3, "b"))


def doubts_of(spark: SparkSession, journal: Journal) -> SuspectIds:
    return SuspectIds.of(keys_of(spark, journal), SIZE, once)


def test_ids_in_order_are_not_compared(spark: SparkSession, examples: Examples) -> None:
    drawn = examples(damaged_history(), 50)
    journal = {f"id {place}": whole for place, (whole, _) in enumerate(drawn)}
    in_order = {name: whole for name, whole in journal.items() if not whole.deleted_to}
    assert len(in_order) > 10
    assert doubts_of(spark, in_order).differing == 0
    deleted = {name: whole for name, whole in journal.items() if whole.deleted_to}
    assert doubts_of(spark, journal).differing == len(deleted) > 0


def test_comparing_the_others_as_well_finds_nothing_more(
    spark: SparkSession, examples: Examples
) -> None:
    broken = {f"broken {place}": one for place, one in enumerate(examples(broken_history(), 200))}
    drawn = enumerate(examples(damaged_history(), 200))
    damaged = {f"damaged {place}": one for place, (_, one) in drawn}
    journal = broken | damaged
    keys = keys_of(spark, journal)
    suspects = SuspectIds.of(keys, SIZE, once)
    assert 0 < suspects.differing < len(journal)
    everybody = sums_of(keys, SIZE).selectExpr("id", "true AS differs", "false AS is_disordered")
    all_of_them = SuspectIds(everybody, len(journal), 0)
    few, every = (told(compare(keys, which, BOUNDS, once)) for which in (suspects, all_of_them))
    assert few == every
    # Without a finding, no row is absent here: what counts as deleted needs none.
    assert all(few[:3])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("has_payload", "sequence_nr <> 3"),
        ("cause", "IF(sequence_nr = 1, 'unknown', NULL)"),
        ("pending_tags", "IF(sequence_nr = 1, array('c'), NULL)"),
    ],
)
def test_ids_with_an_event_that_is_not_as_others_are_compared(
    spark: SparkSession, column: str, value: str
) -> None:
    keys = keys_of(spark, {"p": WHOLE})
    assert SuspectIds.of(keys, SIZE, once).differing == 0
    odd = replace(keys, index=keys.index.withColumn(column, F.expr(value)))
    assert SuspectIds.of(odd, SIZE, once).differing == 1


def told(compared: Compared) -> list[list[str]]:
    """Return all that a comparison tells."""

    def rows(frame: DataFrame) -> list[str]:
        return sorted(map(str, frame.collect()))

    kept = compared.kept
    return [
        *map(rows, (compared.findings, kept.of_deleted_events, kept.of_lost_events)),
        rows(compared.absent),
    ]


@pytest.mark.parametrize(
    ("hours", "expected"), [((0, 1, 2), 0), ((0, 1, 1), 0), ((1, 0, 2), 1), ((0, 2, 1), 1)]
)
def test_ids_with_an_event_older_than_the_one_before(
    spark: SparkSession, hours: tuple[float, ...], expected: int
) -> None:
    journal = {
        "whole": WHOLE,
        "p": History.whole(*((hour, "a") for hour in hours)),
        "damaged": replace(WHOLE, rows=frozenset()),
    }
    keys = keys_of(spark, journal)
    suspects = SuspectIds.of(keys, SIZE, once)
    assert (suspects.differing, suspects.disordered) == (1, expected)
    events = suspects.events_out_of_order(keys.index)
    assert {row["persistence_id"] for row in events.collect()} == ({"p"} if expected else set())
    compared = suspects.keys_that_differ(keys, once)
    assert {row["persistence_id"] for row in compared.index.collect()} == {"damaged"}
