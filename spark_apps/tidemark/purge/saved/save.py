"""The copy of the events and snapshots that are to be deleted.

messages/    complete rows
snapshots/   complete rows
ids/         up to where each persistence id was deleted, and whether it was listed
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.journals.pekko import frames, message_rows
from tidemark.journals.pekko.shapes import ID
from tidemark.purge.saved import copies
from tidemark.purge.shapes import DELETES
from tidemark.spark.shapes import shaped

MESSAGES, SNAPSHOTS, IDS = "messages", "snapshots", "ids"


@dataclass(frozen=True)
class RowsToDelete:
    """The rows that a deletion removes.

    Attributes:
        ids: ID, unique: the persistence ids of the rows.
        parts: DELETES of messages; None for none.
        snapshots: `persistence_id` and `first_kept`, before which all snapshots are deleted, null
            if all are; None for none.
    """

    ids: DataFrame
    parts: DataFrame | None = None
    snapshots: DataFrame | None = None


def save(run: RunContext, deletions: RowsToDelete, directory: str) -> None:
    """Save rows before they are deleted."""
    rows = {IDS: _ids(run, deletions.ids)}
    if deletions.parts is not None:
        rows[MESSAGES] = _messages(run, deletions.parts)
    if deletions.snapshots is not None:
        rows[SNAPSHOTS] = _snapshots(run, deletions.snapshots)
    copies.write(run, directory, rows)


@shaped(parts=DELETES)
def _messages(run: RunContext, parts: DataFrame) -> DataFrame:
    settings = run.settings
    keyspace, name = settings.journal_keyspace, settings.journal_table
    key = ["persistence_id", "partition_nr"]
    rows = connector.read_partitions(
        parts.select(*key),
        keyspace,
        name,
        *copies.columns_of(run.control, keyspace, name),
        ttl_of="event",
        write_time_of="event",
    )
    is_deleted = message_rows.is_event() & (
        F.col("is_whole") | (F.col("sequence_nr") <= F.col("to"))
    )
    return rows.join(parts.drop("events"), on=key).where(is_deleted).drop("is_whole", "to")


@shaped(ends=ID)
def _snapshots(run: RunContext, ends: DataFrame) -> DataFrame:
    settings = run.settings
    keyspace, name = settings.snapshot_keyspace, settings.snapshot_table
    rows = connector.read_partitions(
        ends.select("persistence_id"),
        keyspace,
        name,
        *copies.columns_of(run.control, keyspace, name),
        ttl_of="timestamp",
        write_time_of="timestamp",
    )
    is_deleted = F.col("first_kept").isNull() | (F.col("sequence_nr") < F.col("first_kept"))
    ends = ends.select("persistence_id", "first_kept")
    return rows.join(ends, on="persistence_id").where(is_deleted).drop("first_kept")


@shaped(ids=ID)
def _ids(run: RunContext, ids: DataFrame) -> DataFrame:
    settings = run.settings
    listed = connector.read_partitions(
        ids, settings.journal_keyspace, settings.all_persistence_ids_table, "persistence_id"
    ).withColumn("is_listed", F.lit(True))
    return (
        ids.join(frames.deleted(ids.sparkSession, settings, ids), on="persistence_id", how="left")
        .join(listed, on="persistence_id", how="left")
        .select(
            "persistence_id",
            F.coalesce(F.col("deleted_to"), F.lit(0)).cast("bigint").alias("deleted_to"),
            F.coalesce(F.col("is_listed"), F.lit(False)).alias("is_listed"),
        )
    )
