"""The journal's rows as DataFrames, with the time bucket computed from each row's db_timestamp."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.journals.pekko import shapes as pekko
from tidemark.journals.r2dbc import by_key, queries, shapes
from tidemark.journals.r2dbc.tables import journal_connection, journal_tables
from tidemark.partitioning import columns, keys
from tidemark.partitioning.keys import SliceRange
from tidemark.partitioning.slice_ranges import ALL
from tidemark.postgres import jdbc
from tidemark.postgres.session import session
from tidemark.settings import Settings
from tidemark.spark.shapes import ddl, shaped

_TICKS_PER_MICROSECOND = 10
_SAMPLED_TABLES = 4
_QUERIES_PER_CORE = 2
"""More than one, as some of them return more rows than others."""


@shaped(returns=pekko.MESSAGES)
def events_between(
    spark: SparkSession,
    settings: Settings,
    first_ms: int,
    end_ms: int,
    *payload: str,
    slices: SliceRange = ALL,
    entity_types: Sequence[str] | None = None,
) -> DataFrame:
    """Read the events of a time range, [first_ms, end_ms) in epoch ms, by the slice index.

    `payload` are names in `queries.PAYLOAD`. Without entity types, those of the journal are read
    first. Reads of disjoint ranges of slices together read each event once.
    """
    rows = _between(
        spark, settings, (first_ms, end_ms), payload, slices, entity_types, with_markers=False
    )
    return rows.drop("slice", "entity_type", "deleted")


@shaped(returns=shapes.ROWS)
def rows_between(
    spark: SparkSession,
    settings: Settings,
    first_ms: int,
    end_ms: int,
    *payload: str,
    slices: SliceRange = ALL,
    entity_types: Sequence[str] | None = None,
) -> DataFrame:
    """Read what `events_between` reads, with the deletion markers, and the columns of ROWS."""
    return _between(
        spark, settings, (first_ms, end_ms), payload, slices, entity_types, with_markers=True
    )


@shaped(returns=pekko.MESSAGES)
def all_events(
    spark: SparkSession,
    settings: Settings,
    *payload: str,
    slices: SliceRange = ALL,
    entity_types: Sequence[str] | None = None,
) -> DataFrame:
    """Read the events of any time, as `events_between` does."""
    first, last = read_times(settings) or (0, -1)
    return events_between(
        spark, settings, first, last + 1, *payload, slices=slices, entity_types=entity_types
    )


def _between(
    spark: SparkSession,
    settings: Settings,
    times: tuple[int, int],
    payload: Sequence[str],
    slices: SliceRange,
    entity_types: Sequence[str] | None,
    *,
    with_markers: bool,
) -> DataFrame:
    types = read_entity_types(settings) if entity_types is None else entity_types
    schema = ddl(queries.columns(payload))
    if not types or times[0] >= times[1]:
        return timed(spark.createDataFrame([], schema), settings)
    selects = queries.between(
        journal_tables(settings),
        *times,
        slices,
        types,
        payload,
        with_markers=with_markers,
        parts=_QUERIES_PER_CORE * spark.sparkContext.defaultParallelism,
    )
    server = journal_connection(settings)
    rows = jdbc.read(
        spark,
        server,
        selects,
        schema,
        options=queries.BY_INDEX,
        page_rows=_page_rows(settings, payload),
    )
    return timed(rows, settings)


@shaped(ranges=shapes.RANGES, returns=shapes.ROWS)
def rows_of(ranges: DataFrame, settings: Settings, *payload: str) -> DataFrame:
    """Read the rows of ranges of sequence nrs, by the primary key, with the deletion markers.

    The ranges of a persistence id must not overlap. The read starts anew at each use of the frame.
    """
    rows = by_key.read(
        ranges.select(*shapes.RANGES),
        settings,
        journal_tables(settings),
        lambda table: queries.by_key(table.name, payload),
        queries.columns(payload),
        page_rows=_page_rows(settings, payload),
    )
    return timed(rows, settings)


@shaped(rows=shapes.ROWS, returns=pekko.MESSAGES)
def events(rows: DataFrame) -> DataFrame:
    """Return the events among rows: those that are no deletion markers."""
    return rows.where(~F.col("deleted")).drop("slice", "entity_type", "deleted")


@shaped(rows=shapes.ROWS, returns=pekko.DELETED)
def deletions(rows: DataFrame) -> DataFrame:
    """Return up to where persistence ids are deleted, by the markers among some rows."""
    deleted_to = F.max("sequence_nr").alias("deleted_to")
    return rows.where("deleted").groupBy("persistence_id").agg(deleted_to)


@shaped(ids=pekko.ID, returns=pekko.DELETED)
def deleted(ids: DataFrame, settings: Settings) -> DataFrame:
    """Read up to where unique persistence ids are deleted, by the primary key.

    The plugin deletes events and writes the marker in one transaction: the first row of a
    persistence id is its marker, if it has any.
    """
    lowest = by_key.read(
        ids.select("persistence_id"),
        settings,
        journal_tables(settings),
        lambda table: queries.lowest(table.name),
        {"persistence_id": "string", "deleted_to": "bigint", "deleted": "boolean"},
    )
    return lowest.where("deleted").select("persistence_id", "deleted_to")


def read_entity_types(settings: Settings) -> list[str]:
    """Read the entity types of the journal, sorted, without reading all its rows."""
    found: set[str] = set()
    with session(journal_connection(settings), options=queries.BY_INDEX) as opened:
        for table in journal_tables(settings):
            found.update(
                name for (name,) in opened.execute(queries.entity_types(table.name).encode())
            )
    return sorted(found)


def read_times(settings: Settings) -> tuple[int, int] | None:
    """Read the times (epoch ms) of the journal's first and last row; None if it is empty."""
    firsts, lasts = [], []
    with session(journal_connection(settings), options=queries.BY_INDEX) as opened:
        for table in journal_tables(settings):
            row = opened.execute(queries.times(table.name).encode()).fetchone()
            if row is not None and row[0] is not None:
                firsts.append(row[0])
                lasts.append(row[1])
    return (min(firsts), max(lasts)) if firsts else None


def _page_rows(settings: Settings, payload: Sequence[str]) -> int:
    """Return how many rows a page has, so that pages of large payloads fit into memory."""
    if "event" not in payload:
        return jdbc.FETCH_ROWS
    sizes = []
    with session(journal_connection(settings)) as opened:
        for table in journal_tables(settings)[:_SAMPLED_TABLES]:
            row = opened.execute(queries.payload_size(table.name).encode()).fetchone()
            sizes += [row[0]] if row is not None and row[0] is not None else []
    return jdbc.rows_in_page(max(sizes, default=0.0))


def ticks(micros: Column) -> Column:
    """Return microseconds since 1970 in ticks."""
    return micros * _TICKS_PER_MICROSECOND + keys.UUID_EPOCH_TICKS


def timed(rows: DataFrame, settings: Settings) -> DataFrame:
    """Replace `micros` by timestamp, ticks and time_bucket."""
    epoch_ms = columns.ticks_epoch_ms(F.col("ticks"))
    return (
        rows.withColumn("ticks", ticks(F.col("micros")))
        .withColumns(
            {
                "timestamp": columns.ticks_timeuuid(F.col("ticks"), clock_sequence=0, node=0),
                "time_bucket": columns.time_bucket(epoch_ms, settings.bucket_size),
                "tags": F.when(F.size("tags") > 0, F.col("tags")),
            }
        )
        .drop("micros")
    )
