"""The keys that validate compares, read in the order that rules out false findings.

The journal may be alive. Pekko writes messages, then tag_views, then tag_write_progress, and
metadata before it deletes; so we read progress first, then messages, then tag_views, and last
what excuses absence (facts: pekko-cassandra §3, §6).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from tidemark.cassandra import spark_io
from tidemark.cassandra.control import Control
from tidemark.local_rows import local_rows
from tidemark.settings import Settings


def listed(spark: SparkSession, settings: Settings, control: Control) -> DataFrame:
    """The persistence ids that all_persistence_ids lists, as persistence_id; it may be absent."""
    name = settings.all_persistence_ids_table
    if control.table_columns(settings.journal_keyspace, name) is None:
        return local_rows(spark, [], "persistence_id string")
    return spark_io.read(spark, settings.journal_keyspace, name, "persistence_id")
