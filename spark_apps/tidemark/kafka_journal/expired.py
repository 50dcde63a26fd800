"""Journals of kafka-journal whose time has come, and the rows that are left of them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import TableShape, require_tables, table
from tidemark.kafka_journal import segment_size
from tidemark.kafka_journal.tables import JOURNAL_KEY, METAJOURNAL
from tidemark.settings import Settings
from tidemark.spark.shapes import Shape, shaped

EXPIRING = TableShape(
    columns={
        **METAJOURNAL.columns,
        "partition": "int",
        "offset": "bigint",
        "updated": "timestamp",
        "expire_on": "date",
    },
    partition_key=METAJOURNAL.partition_key,
    clustering=METAJOURNAL.clustering,
)
POINTER = TableShape(
    columns={"topic": "text", "partition": "int", "offset": "bigint"},
    partition_key=("topic", "partition"),
)
EXPIRED: Shape = {
    **JOURNAL_KEY,
    "head_segment": "bigint",
    "segment_size": "int",
    "partition": "int",
    "offset": "bigint",
    "seq_nr": "bigint",
    "deleted_to": "bigint",
    "expire_on": "date",
    "updated_ms": "bigint",
}
"""Heads of metajournal. `deleted_to` is null if nothing is deleted, `updated_ms` epoch ms."""
SEGMENTS: Shape = {**JOURNAL_KEY, "segment": "bigint"}
LEFT: Shape = {
    **JOURNAL_KEY,
    "seq_nr": "bigint",
    "epoch_ms": "bigint",
    "partition": "int",
    "offset": "bigint",
    "write_time": "bigint",
}
"""Rows of journal without payload. `write_time` is Cassandra's, in microseconds."""


def expire_on(at: Column, expire_after: Column, zone: str) -> Column:
    """Return the date in a time zone on which a journal expires.

    Args:
        at: the time of its last append, a timestamp.
        expire_after: nanoseconds.
        zone: name of the time zone.
    """
    micros = F.call_function("div", expire_after, F.lit(1000))
    return F.to_date(F.from_utc_timestamp(F.timestamp_micros(F.unix_micros(at) + micros), zone))


def is_over(expire_on: Column, today: date) -> Column:
    """Return whether the date of expiry has passed: the day itself still counts as life."""
    return F.coalesce(expire_on < F.lit(today), F.lit(False))


def require_expiry(control: Control, settings: Settings) -> None:
    """Refuse tables that say nothing of expiry, or of how far topics are replicated.

    Raises:
        SchemaMismatch: a table is missing or differs; the message names every difference.
    """
    require_tables(
        control,
        settings.kafka_journal_keyspace,
        {settings.kafka_metajournal_table: EXPIRING, settings.kafka_pointer_table: POINTER},
        made_by="kafka-journal's replicator",
        setting="TIDEMARK_KAFKA_JOURNAL_KEYSPACE",
    )


def replicated(control: Control, settings: Settings) -> dict[tuple[str, int], int]:
    """Read the last Kafka offset that is wholly replicated, by topic and Kafka partition."""
    name = table(settings.kafka_journal_keyspace, settings.kafka_pointer_table)
    rows = control.execute(f"SELECT topic, partition, offset FROM {name}")
    return {(row["topic"], row["partition"]): row["offset"] for row in rows}


@shaped(returns=EXPIRED)
def expired_heads(
    spark: SparkSession, settings: Settings, last: date, topics: Collection[str]
) -> DataFrame:
    """Read the heads that expire on a date or before it, by one scan of metajournal.

    Without topics, those of all.

    Upstream's purge asks for one date only, so that it never finds those of a day it has missed.
    """
    heads = connector.read(
        spark,
        settings.kafka_journal_keyspace,
        settings.kafka_metajournal_table,
        "topic",
        "segment",
        "id",
        "partition",
        "offset",
        "segment_size",
        "seq_nr",
        "delete_to",
        "expire_on",
        "updated",
    )
    is_over = F.col("expire_on") <= F.lit(last)
    if topics:
        is_over = is_over & F.col("topic").isin(*topics)
    return heads.where(is_over).select(
        "topic",
        "id",
        F.col("segment").alias("head_segment"),
        segment_size.of_column(F.col("segment_size")).alias("segment_size"),
        "partition",
        "offset",
        "seq_nr",
        F.col("delete_to").alias("deleted_to"),
        "expire_on",
        F.unix_millis("updated").alias("updated_ms"),
    )


@shaped(segments=SEGMENTS, returns=LEFT)
def rows_left(segments: DataFrame, settings: Settings) -> DataFrame:
    """Read what there is in some segments of journal, by direct join.

    Raises:
        CassandraUnavailable: the plan would scan the whole table instead.
    """
    rows = connector.read_partitions(
        segments.select("id", "topic", "segment"),
        settings.kafka_journal_keyspace,
        settings.kafka_journal_table,
        "topic",
        "id",
        "seq_nr",
        "timestamp",
        "partition",
        "offset",
        # The replicator always writes it, also without a payload.
        write_time_of="partition",
    )
    return rows.withColumn("epoch_ms", F.unix_millis("timestamp")).drop("timestamp")
