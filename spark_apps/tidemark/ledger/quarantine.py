"""Records that cannot be processed, kept with their evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.cassandra import connector
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows

TABLE = "quarantine"
SKIPPED_BY_HAND = "skipped by hand"
"""The start of the cause of an event that a person has skipped."""
_PARTITION = ("source", "application")
_EVENT = ("persistence_id", "sequence_nr")
_PAGE = 1000


@dataclass(frozen=True)
class Place:
    """A key, or a prefix of it, of quarantined events.

    Attributes:
        source: table of the events.
        application: application that could not process them.
        persistence_id: only events of this persistence id; None for all.
        sequence_nr: only the event with this sequence nr; None for all.
    """

    source: str
    application: str
    persistence_id: str | None = None
    sequence_nr: int | None = None

    @property
    def key(self) -> Mapping[str, object]:
        """The columns of the primary key with their values, in order."""
        return {name: value for name, value in vars(self).items() if value is not None}


def write(
    events: DataFrame,
    settings: Settings,
    *,
    source: str,
    application: str,
    run_id: str,
    definition_version: str | None = None,
    revision: int | None = None,
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
        F.lit(definition_version).cast("string").alias("definition_version"),
        F.lit(revision).cast("bigint").alias("revision"),
        F.lit(clock.now()).alias("found_at"),
    )
    connector.write(rows, settings.keyspace, TABLE)


def write_one(
    control: Control, settings: Settings, record: Mapping[str, object], *, run_id: str
) -> None:
    """Upsert the row of one event.

    `record` has the columns source, application, persistence_id, sequence_nr, timestamp (timeuuid),
    cause, ser_id, ser_manifest, event, and definition_version if there is one.
    """
    row = {**record, "run_id": run_id, "found_at": clock.now()}
    control.execute(
        f"INSERT INTO {table(settings.keyspace, TABLE)} ({', '.join(row)})"
        f" VALUES ({', '.join('?' * len(row))})",
        list(row.values()),
    )


def stream(control: Control, settings: Settings, place: Place) -> Iterator[Row]:
    """Read quarantined events without their payloads in the order of the key, page by page."""
    yield from control.stream(
        "SELECT persistence_id, sequence_nr, timestamp, cause, run_id, found_at, definition_version"
        f" FROM {table(settings.keyspace, TABLE)} WHERE {_condition(place)}",
        list(place.key.values()),
        page=_PAGE,
    )


def rows(spark: SparkSession, settings: Settings, places: Sequence[Place]) -> DataFrame:
    """Read the quarantined events of whole sources and applications, by direct join.

    Columns out: source, application, persistence_id, sequence_nr, timestamp (timeuuid text), cause,
    ser_id, ser_manifest, run_id, found_at (timestamp).
    """
    partitions = [(place.source, place.application) for place in places]
    keys = local_rows(spark, partitions, "source string, application string")
    columns = ("timestamp", "cause", "ser_id", "ser_manifest", "run_id", "found_at")
    return connector.read_partitions(keys, settings.keyspace, TABLE, *_PARTITION, *_EVENT, *columns)


def delete(control: Control, settings: Settings, place: Place) -> None:
    """Delete quarantined events by one statement."""
    control.execute(
        f"DELETE FROM {table(settings.keyspace, TABLE)} WHERE {_condition(place)}",
        list(place.key.values()),
    )


def stored(events: DataFrame, settings: Settings, place: Place) -> DataFrame:
    """Return the events that are in quarantine under the source and application of `place`.

    Columns in: persistence_id, sequence_nr (together unique), and perhaps others.
    Columns out: those of the events, source, application, definition_version, revision (bigint).
    The rows are in memory.
    """
    # A row and not literal columns: Spark would push literals down as filters, and scan.
    partition = local_rows(
        events.sparkSession,
        [(place.source, place.application)],
        "source string, application string",
    )
    keys = partition.crossJoin(events.select("persistence_id").distinct())
    columns = (*_PARTITION, *_EVENT, "definition_version", "revision")
    rows = connector.read_partitions(keys, settings.keyspace, TABLE, *columns)
    return rows.join(events, on=[*_EVENT]).localCheckpoint()


def release(stored_events: DataFrame, settings: Settings) -> None:
    """Delete rows that `stored` returned, after their events were processed."""
    keys = stored_events.select(*_PARTITION, *_EVENT)
    connector.delete(keys, settings.keyspace, TABLE)


def _condition(place: Place) -> str:
    return " AND ".join(f"{name} = ?" for name in place.key)
