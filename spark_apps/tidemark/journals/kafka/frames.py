"""kafka-journal's tables as DataFrames, in the envelope of Pekko's events."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.journals.kafka import segment_size
from tidemark.journals.kafka.tables import SEGMENTS
from tidemark.journals.pekko import shapes
from tidemark.partitioning import columns
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import Shape, shaped

SERIALIZER_ID = 0
"""The serializer id of every event; its manifest is the payload type, empty without a payload."""
HEADS: Shape = {
    **shapes.DELETED,
    "topic": "string",
    "segment_size": "int",
    "written_to": "bigint",
}
"""The heads of journals. `persistence_id` is the key's id; `deleted_to` is 0 if nothing is deleted.

`written_to`: journal has every appended event up to this seq_nr, since the replicator writes
events before the head (docs/real-systems.md, "Order of writes").
"""
EVENTS: Shape = {**shapes.MESSAGES, **shapes.EVENT_PAYLOAD}
STORED: Shape = {
    "id": "string",
    "seq_nr": "bigint",
    "timestamp": "timestamp",
    "tags": "array<string>",
    "payload_type": "string",
    "payload_txt": "string",
    "payload_bin": "binary",
    "metadata": "string",
}
"""Rows of journal, with the table's names."""
_KEY = ("id", "topic", "seq_nr", "timestamp")
_PAYLOAD = ("tags", "payload_type", "payload_txt", "payload_bin", "metadata")


@shaped(returns=HEADS)
def heads(spark: SparkSession, settings: Settings, topic: str) -> DataFrame:
    """Read the heads of a topic's journals, by direct join on its segments of metajournal."""
    segments = local_rows(
        spark, [(topic, number) for number in range(SEGMENTS)], "topic string, segment bigint"
    )
    stored = connector.read_partitions(
        segments,
        settings.kafka_journal_keyspace,
        settings.kafka_metajournal_table,
        "id",
        "topic",
        "segment_size",
        "delete_to",
        "seq_nr",
    )
    return stored.select(
        F.col("id").alias("persistence_id"),
        "topic",
        segment_size.of_column(F.col("segment_size")).alias("segment_size"),
        F.coalesce("delete_to", F.lit(0)).cast("bigint").alias("deleted_to"),
        F.coalesce("seq_nr", F.lit(0)).cast("bigint").alias("written_to"),
    )


@shaped(heads=HEADS, returns=EVENTS)
def events(heads: DataFrame, settings: Settings, topic: str) -> DataFrame:
    """Read the events of a topic, whose heads are given, by a scan of journal.

    An event without a head, or at or below its head's `deleted_to`, remains from a purge or a
    delete: no reader sees it (docs/real-systems.md, "Order of writes").
    """
    stored = connector.read(
        heads.sparkSession,
        settings.kafka_journal_keyspace,
        settings.kafka_journal_table,
        *_KEY,
        *_PAYLOAD,
    )
    topic_events = enveloped(stored.where(F.col("topic") == topic), settings)
    limits = heads.select("persistence_id", "deleted_to")
    alive = topic_events.join(limits, on="persistence_id")
    return alive.where(F.col("sequence_nr") > F.col("deleted_to")).drop("deleted_to")


@shaped(numbers=shapes.EVENT, heads=HEADS, returns=EVENTS)
def events_of(numbers: DataFrame, heads: DataFrame, settings: Settings) -> DataFrame:
    """Read the events of the keys by direct join; a key without an event or a head has no row."""
    segment = columns.journal_segment(F.col("sequence_nr"), F.col("segment_size"))
    keys = numbers.join(heads, on="persistence_id").select(
        F.col("persistence_id").alias("id"),
        "topic",
        segment.alias("segment"),
        F.col("sequence_nr").alias("seq_nr"),
    )
    stored = connector.read_partitions(
        keys,
        settings.kafka_journal_keyspace,
        settings.kafka_journal_table,
        *_KEY,
        *_PAYLOAD,
    )
    return enveloped(stored, settings)


@shaped(stored=STORED, returns=EVENTS)
def enveloped(stored: DataFrame, settings: Settings) -> DataFrame:
    """Convert rows of journal to events; equal timestamps become equal timeuuids."""
    epoch_ms = F.unix_millis("timestamp")
    is_text = F.col("payload_type").isin("json", "text")
    payload = F.when(is_text, F.encode("payload_txt", "UTF-8")).otherwise(F.col("payload_bin"))
    return stored.select(
        F.col("id").alias("persistence_id"),
        F.col("seq_nr").alias("sequence_nr"),
        columns.epoch_ms_timeuuid(epoch_ms).alias("timestamp"),
        columns.epoch_ms_ticks(epoch_ms).alias("ticks"),
        columns.time_bucket(epoch_ms, settings.bucket_size).alias("time_bucket"),
        "tags",
        F.lit(SERIALIZER_ID).alias("ser_id"),
        F.coalesce("payload_type", F.lit("")).alias("ser_manifest"),
        payload.alias("event"),
        F.lit("").alias("event_manifest"),
        F.lit(None).cast("int").alias("meta_ser_id"),
        F.lit("json").alias("meta_ser_manifest"),
        F.encode("metadata", "UTF-8").alias("meta"),
    )
