"""Reads for the checks of a journal: rows before others, and rows that no reader reaches."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import EVENT
from tidemark.journals.r2dbc import by_key, frames, queries, shapes
from tidemark.journals.r2dbc.tables import journal_connection, journal_tables
from tidemark.partitioning.keys import MAX_EPOCH_MS
from tidemark.postgres import jdbc
from tidemark.postgres.session import session
from tidemark.settings import Settings
from tidemark.spark.shapes import ddl, shaped


@shaped(keys=EVENT, returns=shapes.PREDECESSORS)
def predecessors(keys: DataFrame, settings: Settings) -> DataFrame:
    """Read the row before each of some unique keys, by the primary key; no row if there is none."""
    rows = by_key.read(
        keys.select("persistence_id", "sequence_nr"),
        settings,
        journal_tables(settings),
        lambda table: queries.predecessors(table.name),
        {
            "persistence_id": "string",
            "sequence_nr": "bigint",
            "previous_nr": "bigint",
            "micros": "bigint",
            "is_previous_marker": "boolean",
        },
    )
    return rows.withColumn("previous_ticks", frames.ticks(F.col("micros"))).drop("micros")


@shaped(returns=shapes.ROWS)
def outside_slices(spark: SparkSession, settings: Settings) -> DataFrame:
    """Read the rows of any time whose slice is none of their table, by the slice index."""
    selects = [query for table in journal_tables(settings) for query in queries.outside(table)]
    rows = jdbc.read(
        spark,
        journal_connection(settings),
        selects,
        ddl(queries.columns(())),
        options=queries.BY_INDEX,
    )
    return frames.timed(rows, settings)


@shaped(returns=shapes.ROWS)
def rows_in_future(spark: SparkSession, settings: Settings, tolerance_ms: int) -> DataFrame:
    """Read the rows stamped more than `tolerance_ms` after the server's present time."""
    with session(journal_connection(settings)) as opened:
        row = opened.execute(queries.clock().encode()).fetchone()
    now = int(row[0]) if row is not None else 0
    return frames.rows_between(spark, settings, now + tolerance_ms, MAX_EPOCH_MS)
