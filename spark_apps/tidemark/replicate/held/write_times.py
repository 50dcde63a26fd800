"""The write times of records that leave quarantine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.replicate.apply import WriteTimes
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.replicate.plan import write_time_base
from tidemark.replicate.ranges import newest


def later_than_all(
    run: RunContext, partitions: Sequence[TopicPartition], leaving: DataFrame
) -> Callable[[WriteTimes], WriteTimes]:
    """Return the function from which `apply` gets the bases of records that leave quarantine.

    Their write times are later than those of the last ranges and of all heads, of all partitions,
    since a key may have come from another one.
    """
    entries = newest(run.control, run.settings, partitions).values()
    last = [entry.range.last_write_time for entry in entries]
    lowest = leaving.groupBy("topic", "partition").agg(F.min("offset").alias("first")).collect()
    firsts = {TopicPartition(row["topic"], row["partition"]): row["first"] for row in lowest}

    def begin(of_heads: WriteTimes) -> WriteTimes:
        return {
            tp: write_time_base(first, *last, *of_heads.values()) for tp, first in firsts.items()
        }

    return begin
