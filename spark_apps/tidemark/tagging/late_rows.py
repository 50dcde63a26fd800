"""The record of rows that tag-write adds to time buckets which were done before.

A projection may have consumed such a time bucket already, and purge could delete the row before
the projection's next run has read it. So the partitions that got late rows are recorded, see
`projection.offset_store.late`.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped
from tidemark.tagging import shapes

TABLE = "late_tag_rows"


@shaped(marked=shapes.MARKED, returns=shapes.LATE_PARTITIONS)
def partitions(marked: DataFrame) -> DataFrame:
    """Return the tag-view partitions outside of this run's time buckets that get late rows."""
    return marked.where("is_late").select("time_bucket", "tag").distinct()


def forget(control: Control, settings: Settings, gone: Iterable[tuple[str, int]]) -> None:
    """Delete the records of partitions (tag, time bucket) that are no longer there."""
    control.execute_many(
        f"DELETE FROM {table(settings.keyspace, TABLE)}"
        " WHERE journal_keyspace = ? AND bucket_size = ? AND time_bucket = ? AND tag = ?",
        [
            (settings.journal_keyspace, settings.bucket_size.value, bucket, tag)
            for tag, bucket in gone
        ],
    )


def record(
    control: Control, settings: Settings, late_partitions: Iterable[tuple[int, str]]
) -> None:
    """Write the (time bucket, tag) of each partition, before its rows."""
    control.execute_many(
        f"INSERT INTO {table(settings.keyspace, TABLE)}"
        " (journal_keyspace, bucket_size, time_bucket, tag) VALUES (?, ?, ?, ?)",
        [
            (settings.journal_keyspace, settings.bucket_size.value, bucket, tag)
            for bucket, tag in late_partitions
        ],
    )
