from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import outage_of
from tidemark.spark import read_once
from tidemark.spark.read_once import shuffled_once


def test_what_a_frame_is_made_of_is_read_once(spark: SparkSession) -> None:
    rows_read = spark.sparkContext.accumulator(0)

    def counted(batches: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
        for batch in batches:
            rows_read.add(len(batch))
            yield batch

    events = spark.range(100).selectExpr("id % 7 AS persistence_id", "id AS sequence_nr")
    kept = shuffled_once(events.mapInPandas(counted, events.schema), "persistence_id")
    assert sorted(map(tuple, kept.collect())) == sorted((n % 7, n) for n in range(100))
    assert kept.where("sequence_nr < 10").count() == 10
    last = kept.groupBy("persistence_id").agg(F.max("sequence_nr").alias("sequence_nr"))
    assert kept.join(last, on=["persistence_id", "sequence_nr"]).count() == 7
    assert rows_read.value == 100


def test_what_counts_by_its_key_needs_no_other_shuffle(
    spark: SparkSession, partitions: None
) -> None:
    numbers = spark.range(0, 100, 1, numPartitions=4)
    events = numbers.selectExpr("id % 7 AS persistence_id", "'a' AS tag")
    kept = shuffled_once(events, "persistence_id")
    assert exchanges(events.groupBy("persistence_id", "tag").count()) == 1
    # The plan shows the one shuffle that the kept rows come from, and no other.
    assert exchanges(kept) == 1
    assert exchanges(kept.groupBy("persistence_id", "tag").count()) == 1
    again = kept.repartition("persistence_id")
    assert exchanges(again.groupBy("persistence_id", "tag").count()) == 1
    counted = kept.groupBy("persistence_id").count().collect()
    assert sorted(map(tuple, counted)) == [(0, 15), (1, 15), *((n, 14) for n in range(2, 7))]


def test_where_executors_die_what_they_kept_is_not_read_again(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_once, "is_local", lambda master: False)
    context = spark.sparkContext
    before = set(context._jsc.getPersistentRDDs())
    kept = read_once.kept_once(spark.range(100).where("id % 7 = 0"))
    assert kept.count() == kept.where("id >= 0").count() == 15
    # As if its executor had died.
    for number, rows in context._jsc.getPersistentRDDs().items():
        if number not in before:
            rows.unpersist(True)
    with pytest.raises(Py4JJavaError) as lost:
        kept.where("id > 7").count()
    assert str(outage_of(lost.value)) == (
        "an executor of Spark has ended, and with it rows that must not be read twice; nothing is"
        " half-done; run again"
    )


def exchanges(frame: DataFrame) -> int:
    return str(frame._jdf.queryExecution().executedPlan().toString()).count("Exchange")
