"""In which waves the rows of large journals are written."""

from __future__ import annotations

from itertools import groupby

from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from tests.conftest import PRODUCTION
from tests.unit.conftest import Examples
from tidemark.replicate.shapes import WRITTEN_ROWS
from tidemark.replicate.tables.row_bytes import row_bytes
from tidemark.replicate.tables.rows import WAVES, waves
from tidemark.spark.shapes import ddl

BATCH_SIZE = 2000
SEGMENT = 7

SIZES = (0, 10, 100, 600, 1500, 1990, 5000)
payloads = st.integers(1, len(SIZES)).flatmap(
    lambda number: st.lists(st.sampled_from(SIZES[:number]), min_size=1, max_size=40)
)
"""The bytes of the payloads of a journal's events; large ones in some journals only."""


def waved(spark: SparkSession, sizes: dict[str, list[int]], tasks: int) -> list[list[Row]]:
    """Return the rows of each partition of the frame."""
    nothing = dict.fromkeys(WRITTEN_ROWS)
    rows = [
        nothing
        | {"topic": "t", "id": name, "segment": (number - 1) // SEGMENT, "seq_nr": number}
        | {"tags": ["red"], "payload_bin": bytes(size), "headers": {"a": "b"}, "write_time": 1}
        for name, of_journal in sizes.items()
        for number, size in enumerate(of_journal, 1)
    ]
    rows = [{name: row[name] for name in WRITTEN_ROWS} for row in rows]
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], ddl(WRITTEN_ROWS))
    found = waves(frame.repartition(tasks, "topic", "id"), BATCH_SIZE)
    sized = found.withColumn("bytes", row_bytes(F.struct("tags", "payload_txt", "payload_bin")))
    kept = sized.select("id", "segment", "seq_nr", "wave", "bytes")
    return kept.rdd.glom().collect()


def test_a_wave_has_of_a_journal_what_one_batch_takes_and_waves_are_in_order(
    spark: SparkSession, examples: Examples
) -> None:
    sizes = {f"id {place}": drawn for place, drawn in enumerate(examples(payloads, 300))}
    partitions = waved(spark, sizes, 3)
    rows = [row for partition in partitions for row in partition]
    assert {(row.id, row.seq_nr) for row in rows} == {
        (name, number) for name, drawn in sizes.items() for number in range(1, len(drawn) + 1)
    }
    for partition in partitions:
        places = [(row.wave, row.id, row.seq_nr) for row in partition]
        assert places == sorted(places)
    by_journal = sorted(rows, key=lambda row: (row.id, row.seq_nr))
    for _, of_journal in groupby(by_journal, key=lambda row: row.id):
        numbers = [row.wave for row in of_journal]
        assert numbers == sorted(numbers)
    for (_, wave), batch in groupby(by_journal, key=lambda row: (row.id, row.wave)):
        listed = list(batch)
        if wave < WAVES:
            assert len({row.segment for row in listed}) == 1
            assert len(listed) == 1 or sum(row.bytes for row in listed) <= BATCH_SIZE


def test_large_journals_take_few_waves(spark: SparkSession) -> None:
    """Batches are at least half full where rows are small, or waves would be of no use."""
    [rows] = waved(spark, {"a": [100] * 7, "b": [10] * 5}, 1)
    assert {row.wave for row in rows if row.id == "b"} == {0}
    assert max(row.wave for row in rows if row.id == "a") <= 2


def test_production_settings_keep_the_rows_of_a_journal_together(spark: SparkSession) -> None:
    """Adaptive execution may join partitions, and must not split them."""
    before = {name: str(spark.conf.get(name)) for name in PRODUCTION}
    try:
        for name, value in PRODUCTION.items():
            spark.conf.set(name, value)
        partitions = waved(spark, {name: [10] * 20 for name in "abcdefgh"}, 3)
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    places = [(row.id, index) for index, rows in enumerate(partitions) for row in rows]
    assert len(set(places)) == 8
