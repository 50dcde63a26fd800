"""Reads tag-view rows, most without their payload, and deletes them by key."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.journals.pekko import shapes
from tidemark.journals.pekko.tables import PAYLOAD_COLUMNS
from tidemark.partitioning import columns
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped

TAG_VIEW_KEY = ("tag_name", "timebucket", "timestamp", "persistence_id", "tag_pid_sequence_nr")
"""The primary key columns of the tag views, with their names in the table."""


@shaped(returns=shapes.TAG_ROWS)
def tag_view_keys(spark: SparkSession, settings: Settings) -> DataFrame:
    """Read every row of the tag views, without its payload."""
    keyspace, views = settings.journal_keyspace, settings.events_by_tag_table
    return _rows(connector.read(spark, keyspace, views, *TAG_VIEW_KEY, "sequence_nr"))


@shaped(keys=shapes.VIEW_PARTITIONS, returns=shapes.TAG_ROWS)
def tag_view_keys_of(keys: DataFrame, settings: Settings) -> DataFrame:
    """Read the tag-view rows of the given keys, by direct join.

    `keys` has tag_name, timebucket, and optionally further columns of the primary key in its order.
    """
    keyspace, views = settings.journal_keyspace, settings.events_by_tag_table
    return _rows(connector.read_partitions(keys, keyspace, views, *TAG_VIEW_KEY, "sequence_nr"))


@shaped(keys=shapes.TAG_ROW_KEYS, returns=shapes.TAG_ROW_KEYS)
def whole_tag_view_rows(keys: DataFrame, settings: Settings) -> DataFrame:
    """Read rows with their payload columns, each by its complete primary key."""
    table_keys = _table_keys(keys)
    keyspace, views = settings.journal_keyspace, settings.events_by_tag_table
    columns_read = (*TAG_VIEW_KEY, "sequence_nr", *PAYLOAD_COLUMNS)
    rows = connector.read_partitions(table_keys, keyspace, views, *columns_read)
    return rows.withColumnsRenamed({"tag_name": "tag", "timebucket": "time_bucket"})


@shaped(rows=shapes.TAG_ROW_KEYS)
def delete_tag_view_rows(rows: DataFrame, settings: Settings) -> None:
    """Delete rows of the tag views, each by its complete primary key."""
    keys = _table_keys(rows)
    connector.delete(keys, settings.journal_keyspace, settings.events_by_tag_table)


def _table_keys(rows: DataFrame) -> DataFrame:
    renamed = rows.withColumnsRenamed({"tag": "tag_name", "time_bucket": "timebucket"})
    return renamed.select(*TAG_VIEW_KEY)


def _rows(rows: DataFrame) -> DataFrame:
    return rows.select(
        "persistence_id",
        F.col("tag_name").alias("tag"),
        "sequence_nr",
        "tag_pid_sequence_nr",
        "timestamp",
        columns.timeuuid_ticks(F.col("timestamp")).alias("ticks"),
        F.col("timebucket").alias("time_bucket"),
    )
