"""Reads tag views for `reconcile rebucket`; settings name the table."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidemark.cassandra import connector, row_sizes
from tidemark.context import RunContext
from tidemark.journals.pekko import tag_views
from tidemark.partitioning.keys import BucketSize
from tidemark.reconcile.rebucket.compare import KEY
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows

NEVER_NULL = "sequence_nr"
PARTITION_KEY = ("tag_name", "timebucket")


def settings_of(settings: Settings, table_name: str, size: BucketSize) -> Settings:
    """Return the settings with other tag views."""
    changed = {"events_by_tag_table": table_name, "bucket_size": size}
    return settings.model_copy(update=changed)


def keys(run: RunContext, views: Settings) -> DataFrame:
    """Read the keys of all rows. Columns: KEY."""
    _expect(run, views)
    return connector.read(run.spark, views.journal_keyspace, views.events_by_tag_table, *KEY)


def _expect(run: RunContext, views: Settings) -> None:
    """Set the connector's row size for a new table to that of the old table."""
    keyspace, name = views.journal_keyspace, views.events_by_tag_table
    size = row_sizes.expected(run.spark, keyspace, run.settings.events_by_tag_table)
    row_sizes.expect(run.spark, keyspace, name, size)


def rows(
    run: RunContext, views: Settings, first_bucket: int | None, *, with_ttl: bool = False
) -> DataFrame:
    """Read complete rows, of all time buckets or from `first_bucket` (epoch ms) on.

    Columns: all columns of the table, and with `with_ttl` also ttl (remaining seconds, or null).
    """
    keyspace, name = views.journal_keyspace, views.events_by_tag_table
    _expect(run, views)
    columns = sorted(run.control.table_columns(keyspace, name) or {})
    ttl_of = NEVER_NULL if with_ttl else None
    if first_bucket is None:
        return connector.read(run.spark, keyspace, name, *columns, ttl_of=ttl_of)
    partitions = [
        partition
        for partition in tag_views.partitions(run.control, views)
        if partition[1] >= first_bucket
    ]
    if not partitions:
        return connector.read(run.spark, keyspace, name, *columns, ttl_of=ttl_of).limit(0)
    partition_keys = local_rows(run.spark, partitions, "tag_name string, timebucket bigint")
    return connector.read_partitions(partition_keys, keyspace, name, *columns, ttl_of=ttl_of)
