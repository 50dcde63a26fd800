"""The heads in metajournal."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.journals.kafka import cql_duration
from tidemark.journals.kafka.tables import JOURNAL_KEY, OLD_SEGMENTS, SEGMENTS
from tidemark.partitioning import columns
from tidemark.replicate.shapes import HEAD, HEADS
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped

_STORED = (
    *("partition", "offset", "segment_size", "seq_nr", "delete_to"),
    *("expire_after", "expire_on", "record_id", "origin"),
)


@shaped(journals=JOURNAL_KEY, returns=HEADS)
def heads_of(journals: DataFrame, settings: Settings) -> DataFrame:
    """Read the heads of unique journals by direct join; a journal without one has no row.

    A further column `write_time` is when a head was last written, in microseconds.

    A head of an older release is in the segment of that release. If there are two, the one in the
    present segment counts, as for kafka-journal's reader.
    """
    present = columns.head_segment(F.col("id"), SEGMENTS)
    old = columns.head_segment(F.col("id"), OLD_SEGMENTS)
    keys = journals.select(
        "topic", F.explode(F.array_distinct(F.array(present, old))).alias("segment"), "id"
    )
    # Keys are so small that a single task would read all of them.
    keys = keys.repartition(journals.sparkSession.sparkContext.defaultParallelism)
    stored = connector.read_partitions(
        keys,
        settings.kafka_journal_keyspace,
        settings.kafka_metajournal_table,
        *("topic", "segment", "id", *_STORED),
        write_time_of="offset",
    )
    fields = {
        **{name: F.col(name) for name in ("segment", *_STORED)},
        "expire_after": cql_duration.nanoseconds(F.col("expire_after")),
        "is_new": F.lit(False),
    }
    head = F.struct(*(value.alias(name) for name, value in fields.items())).cast(HEAD)
    return (
        stored.withColumn("head", head)
        .groupBy(*JOURNAL_KEY)
        .agg(
            F.max_by("head", F.col("segment") == present).alias("head"),
            F.max("write_time").alias("write_time"),
        )
    )
