"""The events that a source reads: by slices, by entity types, and by kept keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra.control import Control
from tidemark.context import RunContext
from tidemark.partitioning import keys
from tidemark.partitioning.keys import SliceRange
from tidemark.partitioning.slice_ranges import ALL
from tidemark.project.definition.file import read
from tidemark.project.sources import event_source
from tidemark.project.sources.base import EventSource
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows

DEFINITION = """\
/*---
name: one
version: 1
source: {source}
mode: append
target: k.one
event: kind STRING
---*/

SELECT persistence_id, sequence_nr FROM events
"""
ODD = ["none", "Order|1|replica", "Orders|1", "order|1", "|Order", "Cart|"]


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    """Return rows of 20 persistence ids with three events each, and of odd ids with one."""
    pids = [f"Order|p{number * 3737}" for number in range(20)]
    keys_of = [(pid, number) for pid in pids for number in (1, 2, 3)]
    keys_of += [(pid, 1) for pid in ODD]
    return spark.createDataFrame(keys_of, "persistence_id string, sequence_nr bigint")


@pytest.fixture
def make_source(tmp_path: Path) -> Callable[..., EventSource]:
    def make(source: str, slices: SliceRange) -> EventSource:
        file = tmp_path / "one.sql"
        file.write_text(DEFINITION.format(source=source))
        run = RunContext("project", Settings(), cast("Control", None), "r")
        return event_source(run, read(file), slices)

    return make


def test_four_ranges_have_every_event_once_each_id_inside_its_range(
    rows: DataFrame, make_source: Callable[..., EventSource]
) -> None:
    """EventsBySliceSpec: over 4 ranges, 20 ids with 3 events each are 60 events."""
    orders = rows.where("persistence_id LIKE 'Order|p%'")
    pairs = []
    for slices in keys.slice_ranges(4):
        part = make_source("messages", slices).only_ours(orders).collect()
        assert all(slices.first <= keys.slice_of(row.persistence_id) <= slices.last for row in part)
        pairs += part
    assert len(pairs) == 60
    assert sorted(pairs) == sorted(orders.collect())


def test_entity_types_are_what_stands_before_the_first_separator(
    rows: DataFrame, make_source: Callable[..., EventSource]
) -> None:
    def odd(source: str) -> list[str]:
        chosen = make_source(source, ALL).only_ours(rows).collect()
        return [row.persistence_id for row in chosen if row.persistence_id in ODD]

    assert odd("messages") == ODD
    assert odd("{entity-types: [Order, Cart]}") == ["Order|1|replica", "Cart|"]
    assert odd("{entity-types: [order]}") == ["order|1"]


def test_kept_keys_serve_what_they_were_kept_for_and_nothing_else(
    spark: SparkSession, make_source: Callable[..., EventSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late time bucket that is tried by itself is not in the backlog."""
    events = local_rows(
        spark, [("p|1", number, number) for number in (1, 2, 3)], "id string, nr int, bucket int"
    )
    source = make_source("messages", ALL)
    looked_up: list[Sequence[int]] = []

    def by_keys(keys_: DataFrame, time_buckets: Sequence[int]) -> DataFrame:
        looked_up.append(time_buckets)
        return keys_.where(F.col("bucket").isin(*time_buckets))

    def of_buckets(time_buckets: Sequence[int]) -> DataFrame:
        return events.where(F.col("bucket").isin(*time_buckets))

    monkeypatch.setattr(source, "_rows", of_buckets)
    monkeypatch.setattr(source, "_all_keys", of_buckets)
    monkeypatch.setattr(source, "_rows_of", by_keys)
    read_rows = EventSource.planned_rows.__wrapped__  # type: ignore[attr-defined]
    monkeypatch.setattr(source, "rows", of_buckets)
    with source.keep_keys([1, 2]):
        assert [row.nr for row in read_rows(source, [2]).collect()] == [2]
        assert [row.nr for row in read_rows(source, [3]).collect()] == [3]
        assert [row.nr for row in read_rows(source, [1, 3]).collect()] == [1, 3]
    assert looked_up == [[2]]
    assert [row.nr for row in read_rows(source, [2]).collect()] == [2]
    assert looked_up == [[2]]
