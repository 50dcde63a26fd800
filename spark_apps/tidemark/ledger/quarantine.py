"""Records that cannot be processed, kept with their evidence."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import spark_io
from tidemark.settings import Settings

TABLE = "quarantine"


def write(
    events: DataFrame, settings: Settings, *, source: str, application: str, run_id: str
) -> None:
    """Upsert one row for each event, by its place in the source.

    Columns in: persistence_id, sequence_nr, timestamp (timeuuid text), cause, ser_id,
    ser_manifest, event.
    """
    rows = events.select(
        F.lit(source).alias("source"),
        F.lit(application).alias("application"),
        "persistence_id",
        "sequence_nr",
        "timestamp",
        "cause",
        "ser_id",
        "ser_manifest",
        "event",
        F.lit(run_id).alias("run_id"),
        F.lit(datetime.now(UTC)).alias("found_at"),
    )
    spark_io.write(rows, settings.keyspace, TABLE)
