"""The rows that the replicator has written: the keys of both tables, and their origin."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.journals.kafka import segment_size
from tidemark.settings import Settings
from tidemark.spark.shapes import Shape, shaped

_ID: Shape = {"topic": "string", "persistence_id": "string"}
HEAD_ROWS: Shape = {
    **_ID,
    "segment": "bigint",
    "segment_size": "int",
    "partition": "int",
    "offset": "bigint",
    "seq_nr": "bigint",
    "delete_to": "bigint",
    "record_id": "string",
}
"""Rows of metajournal. `delete_to` is 0 if nothing is deleted; `partition` and `offset` are those
of the last record that changed the head; `record_id` is null in a head that a delete created."""
EVENT_COLUMNS: Shape = {
    "segment": "bigint",
    "seq_nr": "bigint",
    "timestamp": "timestamp",
    "partition": "int",
    "offset": "bigint",
    "origin": "string",
    "meta_record_id": "string",
}
EVENT_ROWS: Shape = {**_ID, **EVENT_COLUMNS}
"""Rows of journal without payload. `meta_record_id` is the head's `record_id` when it was written,
null in rows of older releases."""
HEAD_PLACE: Shape = {"topic": "string", "segment": "bigint"}
EVENT_PLACE: Shape = {**_ID, "segment": "bigint"}

_HEAD_COLUMNS = (
    *("topic", "segment", "id", "segment_size", "partition", "offset"),
    *("seq_nr", "delete_to", "record_id"),
)
_EVENT_COLUMNS = (
    *("id", "topic", "segment", "seq_nr", "timestamp"),
    *("partition", "offset", "origin", "meta_record_id"),
)


@shaped(returns=HEAD_ROWS)
def head_rows(spark: SparkSession, settings: Settings) -> DataFrame:
    """Read all rows of metajournal by a scan."""
    return _heads(connector.read(spark, *_metajournal(settings), *_HEAD_COLUMNS))


@shaped(places=HEAD_PLACE, returns=HEAD_ROWS)
def head_rows_of(places: DataFrame, settings: Settings) -> DataFrame:
    """Read the rows of some segments (unique) of metajournal by direct join."""
    return _heads(connector.read_partitions(places, *_metajournal(settings), *_HEAD_COLUMNS))


@shaped(returns=EVENT_ROWS)
def event_rows(spark: SparkSession, settings: Settings) -> DataFrame:
    """Read the keys of all rows of journal by a scan."""
    return _events(connector.read(spark, *_journal(settings), *_EVENT_COLUMNS))


@shaped(places=EVENT_PLACE, returns=EVENT_ROWS)
def event_rows_of(places: DataFrame, settings: Settings) -> DataFrame:
    """Read the keys of the rows of some partitions (unique) of journal by direct join."""
    keys = places.select(F.col("persistence_id").alias("id"), "topic", "segment")
    return _events(connector.read_partitions(keys, *_journal(settings), *_EVENT_COLUMNS))


def _metajournal(settings: Settings) -> tuple[str, str]:
    return settings.kafka_journal_keyspace, settings.kafka_metajournal_table


def _journal(settings: Settings) -> tuple[str, str]:
    return settings.kafka_journal_keyspace, settings.kafka_journal_table


def _heads(stored: DataFrame) -> DataFrame:
    return stored.withColumnRenamed("id", "persistence_id").withColumns(
        {
            "segment_size": segment_size.of_column(F.col("segment_size")),
            "seq_nr": F.coalesce("seq_nr", F.lit(0)).cast("bigint"),
            "delete_to": F.coalesce("delete_to", F.lit(0)).cast("bigint"),
        }
    )


def _events(stored: DataFrame) -> DataFrame:
    return stored.withColumnRenamed("id", "persistence_id")
