"""Which snapshots a purge must leave: a projection begins with the same without the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.unit.purge.test_needs import OFFSETS, TEXT
from tidemark.project.acceptance.snapshots import newest
from tidemark.project.definition.file import read
from tidemark.project.definition.model import Definition, Mode, Start
from tidemark.project.planning import history
from tidemark.purge.needs.consumers import Consumer, ConsumerProgress
from tidemark.purge.needs.snapshots import needed_by
from tidemark.spark.local_rows import local_rows

INDEX = "persistence_id string, snapshot_nr bigint, epoch_ms bigint"


@pytest.fixture(scope="module")
def definition(tmp_path_factory: pytest.TempPathFactory) -> Definition:
    file: Path = tmp_path_factory.mktemp("definitions") / "one.sql"
    file.write_text(TEXT)
    return replace(read(file), start=Start.SNAPSHOT, mode=Mode.FOLD)


lives = st.lists(
    st.tuples(
        st.none() | st.integers(1, 30),
        st.dictionaries(st.integers(0, 30), st.integers(0, 30), max_size=5),
    ),
    min_size=20,
    max_size=40,
)


@given(lives, st.none() | st.integers(0, 30), st.booleans(), st.integers(0, 12))
@settings(
    max_examples=5,
    # Each example is Spark's work: shrinking would take minutes.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_without_the_other_snapshots_it_begins_with_the_same_one(
    spark: SparkSession,
    definition: Definition,
    ids: list[tuple[int | None, dict[int, int]]],
    earliest_end: int | None,
    is_anew: bool,
    later: int,
) -> None:
    index = [
        (str(place), number, at)
        for place, (_, taken) in enumerate(ids)
        for number, at in taken.items()
    ]
    stored = [
        (str(place), "", known, known, None, None)
        for place, (known, _) in enumerate(ids)
        if known is not None
    ]
    consumer = Consumer("r", definition, history.ALL, ConsumerProgress(None, is_anew))
    rows = needed_by(
        consumer, local_rows(spark, index, INDEX), local_rows(spark, stored, OFFSETS), earliest_end
    ).collect()
    needed = {row.persistence_id: row.needed_from for row in rows}
    kept = [row for row in index if row[0] in needed and row[1] >= needed[row[0]]]
    # Of what nothing is done, the window of the next run holds all snapshots.
    end = 31 if earliest_end is None else earliest_end + later

    def begins(snapshots: list[tuple[str, int, int]]) -> dict[str, int]:
        unmet = [row for row in snapshots if ids[int(row[0])][0] is None]
        found = newest(local_rows(spark, unmet, INDEX), end).collect()
        return {row.persistence_id: row.snapshot_nr for row in found}

    assert begins(kept) == begins(index)
    if is_anew:
        for place, (known, taken) in enumerate(ids):
            for reached in range(known or 31, 31):
                before = max((n for n in taken if 0 < n <= reached), default=None)
                after = max(
                    (n for pid, n, _ in kept if pid == str(place) and n <= reached), default=None
                )
                assert before == after
    else:
        assert all(ids[int(pid)][0] is None for pid in needed)
