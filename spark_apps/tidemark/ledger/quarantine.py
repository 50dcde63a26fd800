"""Records that cannot be processed, kept with their evidence."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.settings import Settings

TABLE = "quarantine"


def write(
    events: DataFrame, settings: Settings, *, source: str, application: str, run_id: str
) -> None:
    """Upsert one row for each event, under the event's place in the source.

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
        F.lit(clock.now()).alias("found_at"),
    )
    connector.write(rows, settings.keyspace, TABLE)


def write_one(
    control: Control, settings: Settings, record: Mapping[str, object], *, run_id: str
) -> None:
    """Upsert the row of one event.

    Args:
        control: the session to Cassandra.
        settings: where the table is.
        record: source, application, persistence_id, sequence_nr, timestamp (timeuuid), cause,
            ser_id, ser_manifest, event.
        run_id: id of the run.
    """
    row = {**record, "run_id": run_id, "found_at": clock.now()}
    control.execute(
        f"INSERT INTO {table(settings.keyspace, TABLE)} ({', '.join(row)})"
        f" VALUES ({', '.join('?' * len(row))})",
        list(row.values()),
    )
