"""Where a run over a journal in PostgreSQL searches for events that were committed late."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tidemark.project.sources.r2dbc import lacking, look_back

SIZE = 10
BUCKETS = st.sets(st.integers(-5, 15).map(lambda n: n * SIZE), max_size=8)
OFFSETS = "persistence_id string, tag string, stored_number bigint, stored_sequence_nr bigint"


@given(BUCKETS, BUCKETS, st.integers(0, 45))
def test_the_look_back_is_each_moment_before_a_planned_bucket_once(
    planned: set[int], held: set[int], ms: int
) -> None:
    in_planned = {moment for bucket in planned for moment in range(bucket, bucket + SIZE)}
    wanted = {moment for bucket in planned for moment in range(bucket - ms, bucket)}
    wanted |= {moment for bucket in held for moment in range(bucket, bucket + SIZE)}
    found = look_back(planned, held, SIZE, ms)
    moments = [moment for first, end in found for moment in range(first, end)]
    assert moments == sorted(wanted - in_planned)
    assert all(end < first for (_, end), (first, _) in pairwise(found))


def test_lacking_numbers_are_those_below_the_highest_found(spark: SparkSession) -> None:
    chance = random.Random(47)
    found, stored, wanted = [], [], set()
    for nr in range(300):
        pid, known = f"p|{nr}", chance.choice([None, 0, 3])
        numbers = sorted(set(chance.choices(range(1, 10), k=chance.randint(1, 9))))
        # A number that is found twice, in the time bucket and in the look-back.
        found += [(pid, number) for number in [*numbers, numbers[-1]]]
        if known is not None:
            stored.append((pid, "", known, known))
        after = known or 0
        new = [number for number in numbers if number > after]
        if new and new != list(range(after + 1, new[-1] + 1)):
            wanted.add((pid, after + 1, new[-1]))
    rows = spark.createDataFrame(found, "persistence_id string, sequence_nr bigint")
    result = lacking(rows, spark.createDataFrame(stored, OFFSETS)).collect()
    assert {(row.persistence_id, row.first_nr, row.last_nr) for row in result} == wanted
    assert len(result) == len(wanted)
