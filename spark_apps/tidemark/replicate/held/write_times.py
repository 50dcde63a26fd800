"""The write times of what leaves quarantine."""

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
    """Return the function that `apply` asks for the bases of records that leave quarantine.

    Their write times are later than those of the last ranges and of all heads: of all partitions,
    since a key may have come from another one.
    """
    entries = newest(run.control, run.settings, partitions).values()
    last = [entry.range.last_write_time for entry in entries]
    lowest = leaving.groupBy("topic", "partition").agg(F.min("offset").alias("first")).collect()
    firsts = {TopicPartition(one["topic"], one["partition"]): one["first"] for one in lowest}

    def begin(of_heads: WriteTimes) -> WriteTimes:
        return {
            one: write_time_base(first, *last, *of_heads.values()) for one, first in firsts.items()
        }

    return begin
