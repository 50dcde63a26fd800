"""The copy of what a deletion takes: Parquet, in a directory of each run.

DIRECTORY/RUN ID/messages/    whole rows, each with write time, TTL and when it was saved
snapshots/   the same of snapshots
ids/         how far each persistence id was deleted, and whether it was listed
about/       one row, written last: without it the copy is not complete
"""

from __future__ import annotations

from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.context import RunContext
from tidemark.errors import TidemarkError, root_cause
from tidemark.journal import frames
from tidemark.journal.shapes import ID
from tidemark.retention.messages.shapes import DELETES
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.window import to_millis

ABOUT = "journal_keyspace string, snapshot_keyspace string, run_id string, saved_at bigint"
MESSAGES, SNAPSHOTS, IDS, ABOUT_IT = "messages", "snapshots", "ids", "about"


@dataclass(frozen=True)
class Doomed:
    """What a deletion takes.

    Attributes:
        ids: ID, unique: of which something goes.
        parts: DELETES of messages; None for none.
        snapshots: `persistence_id` and `first_kept`, before which all snapshots go, null if all
            go; None for none.
    """

    ids: DataFrame
    parts: DataFrame | None = None
    snapshots: DataFrame | None = None


def save(run: RunContext, doomed: Doomed, directory: str) -> None:
    """Save what goes, before anything is deleted.

    Raises:
        TidemarkError: the directory cannot be written; nothing was deleted.
    """
    place = f"{directory.rstrip('/')}/{run.run_id}"
    saved_at = to_millis(clock.now())
    run.say(f"saving to {place} what goes")
    try:
        if doomed.parts is not None:
            _write(_messages(run, doomed.parts), f"{place}/{MESSAGES}", saved_at)
        if doomed.snapshots is not None:
            _write(_snapshots(run, doomed.snapshots), f"{place}/{SNAPSHOTS}", saved_at)
        _write(_ids(run, doomed.ids), f"{place}/{IDS}", saved_at)
        names = (run.settings.journal_keyspace, run.settings.snapshot_keyspace)
        about = local_rows(run.spark, [(*names, run.run_id, saved_at)], ABOUT)
        about.write.parquet(f"{place}/{ABOUT_IT}")
    except (PySparkException, Py4JJavaError) as error:
        raise TidemarkError(
            f"what goes cannot be saved: {root_cause(error)}",
            where=place,
            do="nothing was deleted; give another directory",
        ) from None


def columns_of(control: Control, keyspace: str, name: str) -> list[str]:
    """Return the columns of a table, in order."""
    return sorted(control.table_columns(keyspace, name) or {})


@shaped(parts=DELETES)
def _messages(run: RunContext, parts: DataFrame) -> DataFrame:
    settings = run.settings
    keyspace, name = settings.journal_keyspace, settings.journal_table
    key = ["persistence_id", "partition_nr"]
    rows = connector.read_partitions(
        parts.select(*key),
        keyspace,
        name,
        *columns_of(run.control, keyspace, name),
        ttl_of="event",
        write_time_of="event",
    )
    goes = F.col("is_whole") | (F.col("sequence_nr") <= F.col("to"))
    return rows.join(parts.drop("events"), on=key).where(goes).drop("is_whole", "to")


@shaped(ends=ID)
def _snapshots(run: RunContext, ends: DataFrame) -> DataFrame:
    settings = run.settings
    keyspace, name = settings.snapshot_keyspace, settings.snapshot_table
    rows = connector.read_partitions(
        ends.select("persistence_id"),
        keyspace,
        name,
        *columns_of(run.control, keyspace, name),
        ttl_of="timestamp",
        write_time_of="timestamp",
    )
    goes = F.col("first_kept").isNull() | (F.col("sequence_nr") < F.col("first_kept"))
    ends = ends.select("persistence_id", "first_kept")
    return rows.join(ends, on="persistence_id").where(goes).drop("first_kept")


@shaped(ids=ID)
def _ids(run: RunContext, ids: DataFrame) -> DataFrame:
    settings = run.settings
    listed = connector.read_partitions(
        ids, settings.journal_keyspace, settings.all_persistence_ids_table, "persistence_id"
    ).withColumn("is_listed", F.lit(True))
    return (
        ids.join(frames.deleted_of_ids(ids, settings), on="persistence_id", how="left")
        .join(listed, on="persistence_id", how="left")
        .select(
            "persistence_id",
            F.coalesce(F.col("deleted_to"), F.lit(0)).cast("bigint").alias("deleted_to"),
            F.coalesce(F.col("is_listed"), F.lit(False)).alias("is_listed"),
        )
    )


def _write(rows: DataFrame, place: str, saved_at: int) -> None:
    rows.withColumn("saved_at", F.lit(saved_at).cast("bigint")).write.parquet(place)
