"""Reads Pekko's table of snapshots, which has a keyspace of its own.

Source: org.apache.pekko.persistence.cassandra.snapshot.CassandraSnapshotStatements (1.1.0);
include/sql/schema/pekko_snapshot.cql has the statement.
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
    """Require a table of snapshots with the expected shape.

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
    """Return the resource to lock for deleting snapshots."""
    return f"snapshots/{settings.snapshot_keyspace}"


@shaped(ids=shapes.ID, returns=shapes.SNAPSHOTS)
def index(spark: SparkSession, settings: Settings, ids: DataFrame | None = None) -> DataFrame:
    """Read every snapshot without its payload, or those of unique ids, by direct join."""
    source = (settings.snapshot_keyspace, settings.snapshot_table, *_INDEX)
    return connector.read(spark, *source, keys=ids).select(
        "persistence_id",
        F.col("sequence_nr").alias("snapshot_nr"),
        F.col("timestamp").alias("epoch_ms"),
    )


def has_snapshots(control: Control, settings: Settings) -> bool:
    """Return whether the table of snapshots exists."""
    columns_found = control.table_columns(settings.snapshot_keyspace, settings.snapshot_table)
    return columns_found is not None


@shaped(keys=shapes.EVENT, returns=shapes.SNAPSHOT_PAYLOADS)
def payloads(keys: DataFrame, settings: Settings) -> DataFrame:
    """Read complete snapshots of unique keys, by direct join."""
    snapshots = connector.read_partitions(
        keys,
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
