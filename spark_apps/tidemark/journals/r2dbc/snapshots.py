"""Reads the snapshots of akka-persistence-r2dbc: one for each persistence id."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.journals.pekko import shapes
from tidemark.journals.r2dbc import by_key, queries
from tidemark.journals.r2dbc.tables import journal_connection, snapshot_tables
from tidemark.partitioning import columns
from tidemark.partitioning.keys import SliceRange
from tidemark.partitioning.slice_ranges import ALL
from tidemark.postgres import jdbc
from tidemark.settings import Settings
from tidemark.spark.shapes import ddl, shaped

_INDEX = {"persistence_id": "string", "snapshot_nr": "bigint", "epoch_ms": "bigint"}
_PAYLOAD = {"ser_id": "int", "ser_manifest": "string", "event": "binary"}


@shaped(ids=shapes.ID, returns=shapes.SNAPSHOTS)
def index(
    spark: SparkSession,
    settings: Settings,
    ids: DataFrame | None = None,
    slices: SliceRange = ALL,
) -> DataFrame:
    """Read every snapshot of some slices without its payload, or those of unique ids, by key."""
    tables = snapshot_tables(settings)
    if ids is None:
        selects = [queries.snapshots(table.name, slices) for table in tables]
        return jdbc.read(spark, journal_connection(settings), selects, ddl(_INDEX))
    return by_key.read(
        ids.select("persistence_id"),
        settings,
        tables,
        lambda table: queries.snapshots_by_id(table.name, with_payload=False),
        _INDEX,
    )


@shaped(keys=shapes.EVENT, returns=shapes.SNAPSHOT_PAYLOADS)
def payloads(keys: DataFrame, settings: Settings) -> DataFrame:
    """Read complete snapshots of unique keys, by the primary key.

    A snapshot that was replaced by a newer one meanwhile has no row.
    """
    stored = by_key.read(
        keys.select("persistence_id"),
        settings,
        snapshot_tables(settings),
        lambda table: queries.snapshots_by_id(table.name, with_payload=True),
        {**_INDEX, **_PAYLOAD},
    ).withColumnRenamed("snapshot_nr", "sequence_nr")
    epoch_ms = F.col("epoch_ms")
    wanted = keys.select("persistence_id", "sequence_nr")
    return stored.join(wanted, on=["persistence_id", "sequence_nr"], how="left_semi").select(
        "persistence_id",
        "sequence_nr",
        columns.epoch_ms_timeuuid(epoch_ms).alias("timestamp"),
        columns.epoch_ms_ticks(epoch_ms).alias("ticks"),
        columns.time_bucket(epoch_ms, settings.bucket_size).alias("time_bucket"),
        "ser_id",
        "ser_manifest",
        "event",
    )
