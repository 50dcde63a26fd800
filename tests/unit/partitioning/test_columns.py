"""Key arithmetic as Spark columns, against the vectors and against the Python form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest
from hypothesis import strategies as st
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tests.unit.conftest import Examples
from tests.unit.partitioning.key_vectors import PARTITIONS, TIME_BUCKETS, TIMEUUIDS, slice_vectors
from tidemark.partitioning import columns, keys
from tidemark.partitioning.keys import BucketSize

ColumnFunction = Callable[[Column], Column]


def evaluate(
    spark: SparkSession, kind: str, values: Sequence[object], *functions: ColumnFunction
) -> list[tuple[Any, ...]]:
    """Return the results of the column functions on each value, computed in one job."""
    frame = spark.createDataFrame(list(enumerate(values)), f"place int, value {kind}")
    results = [function(F.col("value")).alias(f"r{n}") for n, function in enumerate(functions)]
    rows = frame.select("place", *results).collect()
    return [tuple(row)[1:] for row in sorted(rows, key=lambda row: row["place"])]


def test_all_slice_vectors_agree(spark: SparkSession) -> None:
    vectors = slice_vectors()
    computed = evaluate(
        spark,
        "string",
        [persistence_id for persistence_id, *_ in vectors],
        columns.java_hash,
        columns.slice_of,
        columns.entity_type,
    )
    assert len(computed) == 835
    assert computed == [tuple(vector[1:]) for vector in vectors]


def test_ids_of_every_script_agree_with_the_python_form(
    spark: SparkSession, examples: Examples
) -> None:
    # Lone surrogates are left out, because Spark's strings are UTF-8, which has none.
    alphabet = st.one_of(
        st.characters(codec="utf-8"), st.characters(min_codepoint=0x10000), st.just("|")
    )
    ids = ["", "polygenelubricants", *examples(st.text(alphabet, max_size=60))]
    computed = evaluate(
        spark, "string", ids, columns.java_hash, columns.slice_of, columns.entity_type
    )
    assert computed == [(keys.java_hash(i), keys.slice_of(i), keys.entity_type(i)) for i in ids]


@pytest.mark.parametrize("size", BucketSize)
def test_time_bucket(spark: SparkSession, examples: Examples, size: BucketSize) -> None:
    cases = [(epoch_ms, bucket) for epoch_ms, of_size, bucket in TIME_BUCKETS if of_size is size]
    times = examples(st.integers(keys.MIN_EPOCH_MS, keys.MAX_EPOCH_MS))
    expected = cases + [(time, keys.time_bucket(time, size)) for time in times]
    computed = evaluate(
        spark,
        "bigint",
        [epoch_ms for epoch_ms, _ in expected],
        lambda epoch_ms: columns.time_bucket(epoch_ms, size),
        lambda epoch_ms: columns.messages_time_bucket(epoch_ms, size),
    )
    assert computed == [(bucket, str(bucket)) for _, bucket in expected]


def test_timeuuid_to_time(spark: SparkSession) -> None:
    texts = [text for text, _, _ in TIMEUUIDS]
    computed = evaluate(spark, "string", texts, columns.timeuuid_ticks, columns.timeuuid_epoch_ms)
    assert computed == [(ticks, epoch_ms) for _, ticks, epoch_ms in TIMEUUIDS]


def test_timeuuid_there_and_back_agrees_with_the_python_form(
    spark: SparkSession, examples: Examples
) -> None:
    clock_sequence, node = 0x2A5, 0x01_00_00_00_00_01
    ends = [0, 1, keys.UUID_EPOCH_TICKS - 1, keys.UUID_EPOCH_TICKS, keys.MAX_TICKS]
    all_ticks = ends + examples(st.integers(0, keys.MAX_TICKS))

    def timeuuid(ticks: Column) -> Column:
        return columns.ticks_timeuuid(ticks, clock_sequence=clock_sequence, node=node)

    computed = evaluate(
        spark,
        "bigint",
        all_ticks,
        timeuuid,
        lambda ticks: columns.timeuuid_ticks(timeuuid(ticks)),
        lambda ticks: columns.timeuuid_epoch_ms(timeuuid(ticks)),
    )
    texts = [keys.ticks_timeuuid(t, clock_sequence=clock_sequence, node=node) for t in all_ticks]
    assert computed == [(text, UUID(text).time, keys.timeuuid_epoch_ms(text)) for text in texts]


def test_epoch_ms_to_its_first_tick_and_timeuuid(spark: SparkSession, examples: Examples) -> None:
    times = [
        keys.MIN_EPOCH_MS,
        keys.MAX_EPOCH_MS,
        *examples(st.integers(keys.MIN_EPOCH_MS, keys.MAX_EPOCH_MS)),
    ]
    computed = evaluate(spark, "bigint", times, columns.epoch_ms_ticks, columns.epoch_ms_timeuuid)
    ticks = [keys.epoch_ms_ticks(epoch_ms) for epoch_ms in times]
    firsts = [keys.ticks_timeuuid(tick, clock_sequence=0, node=0) for tick in ticks]
    assert computed == list(zip(ticks, firsts, strict=True))


@pytest.mark.parametrize(
    "text", ["", "not a uuid", "f25b6171-e552-41f1-b86a-3364b77aea1d", "f25b6171-e552-11f1-b86a"]
)
def test_what_is_not_a_timeuuid_fails_the_job(spark: SparkSession, text: str) -> None:
    with pytest.raises(Exception, match=f"not a timeuuid: {text}"):
        evaluate(spark, "string", [text], columns.timeuuid_ticks)


def test_partition_nr(spark: SparkSession, examples: Examples) -> None:
    numbers = [number for number, _ in PARTITIONS] + examples(st.integers(1, 2**63 - 1))
    computed = evaluate(
        spark,
        "bigint",
        numbers,
        columns.partition_nr,
        lambda sequence_nr: columns.partition_nr(sequence_nr, 7),
        lambda sequence_nr: columns.message_partitions(sequence_nr, 7),
    )
    assert computed == [
        (keys.partition_nr(n), keys.partition_nr(n, 7), list(keys.message_partitions(n, 7)))
        for n in numbers
    ]


def test_null_stays_null(spark: SparkSession) -> None:
    functions = [
        columns.java_hash,
        columns.slice_of,
        columns.entity_type,
        columns.timeuuid_ticks,
        columns.timeuuid_epoch_ms,
    ]
    assert evaluate(spark, "string", [None], *functions) == [(None,) * len(functions)]
