"""Reads of Pekko's table of snapshots, which has a keyspace of its own.

Source: org.apache.pekko.persistence.cassandra.snapshot.CassandraSnapshotStatements (1.1.0);
include/sql/schema/pekko_snapshot.cql holds the statement.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import TableShape, require_tables
from tidemark.journals.pekko import shapes
from tidemark.partitioning import columns
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped

SHAPE = TableShape(
    columns={
        "persistence_id": "text",
        "sequence_nr": "bigint",
        "timestamp": "bigint",
        "ser_id": "int",
        "ser_manifest": "text",
        "snapshot_data": "blob",
    },
    partition_key=("persistence_id",),
    clustering=("sequence_nr",),
)
_INDEX = ("persistence_id", "sequence_nr", "timestamp")


def require_snapshots(control: Control, settings: Settings) -> None:
    """Refuse a keyspace whose table of snapshots is missing or has another shape.

    Raises:
        SchemaMismatch: the table is missing or differs; the message names every difference.
    """
    shapes = {settings.snapshot_table: SHAPE}
    require_tables(
        control,
        settings.snapshot_keyspace,
        shapes,
        made_by="Pekko's snapshot store (see snapshot.keyspace and snapshot.table, here"
        " TIDEMARK_SNAPSHOT_KEYSPACE and _TABLE)",
        setting="TIDEMARK_SNAPSHOT_KEYSPACE",
    )


def lock_of(settings: Settings) -> str:
    """Return the resource that whoever deletes snapshots must lock."""
    return f"snapshots/{settings.snapshot_keyspace}"


@shaped(ids=shapes.ID, returns=shapes.SNAPSHOTS)
def index(spark: SparkSession, settings: Settings, ids: DataFrame | None = None) -> DataFrame:
    """Read every snapshot without its payload, or those of unique ids, by direct join."""
    place = (settings.snapshot_keyspace, settings.snapshot_table, *_INDEX)
    return connector.read(spark, *place, keys=ids).select(
        "persistence_id",
        F.col("sequence_nr").alias("snapshot_nr"),
        F.col("timestamp").alias("epoch_ms"),
    )


def has_snapshots(control: Control, settings: Settings) -> bool:
    """Return whether there is a table of snapshots."""
    found = control.table_columns(settings.snapshot_keyspace, settings.snapshot_table)
    return found is not None


@shaped(wanted=shapes.EVENT, returns=shapes.SNAPSHOT_PAYLOADS)
def payloads(wanted: DataFrame, settings: Settings) -> DataFrame:
    """Read whole snapshots, by direct join.

    Args:
        wanted: unique keys.
        settings: where the snapshots are, and the bucket size.

    Raises:
        CassandraUnavailable: the plan would scan the whole table instead.
    """
    snapshots = connector.read_partitions(
        wanted,
        settings.snapshot_keyspace,
        settings.snapshot_table,
        *_INDEX,
        "ser_id",
        "ser_manifest",
        "snapshot_data",
    )
    epoch_ms = F.col("epoch_ms")
    return snapshots.withColumnRenamed("timestamp", "epoch_ms").select(
        "persistence_id",
        "sequence_nr",
        columns.epoch_ms_timeuuid(epoch_ms).alias("timestamp"),
        columns.epoch_ms_ticks(epoch_ms).alias("ticks"),
        columns.time_bucket(epoch_ms, settings.bucket_size).alias("time_bucket"),
        "ser_id",
        "ser_manifest",
        F.col("snapshot_data").alias("event"),
    )
