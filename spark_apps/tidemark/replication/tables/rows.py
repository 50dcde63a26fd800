"""The bulk writes of events and heads; each row has the write time of its record."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.kafka_journal import cql_duration
from tidemark.kafka_journal.tables import JOURNAL_KEY
from tidemark.replication.shapes import (
    CHANGED_HEADS,
    HEAD_FIELDS,
    JOURNAL_ROWS,
    WRITE_TIME,
    WRITTEN_ROWS,
)
from tidemark.settings import Settings
from tidemark.spark.shapes import Shape, shaped


@shaped(rows=WRITTEN_ROWS)
def write_events(rows: DataFrame, settings: Settings, *, in_order: bool) -> None:
    """Write rows of journal; a column that the record leaves out stays unset.

    A reader that meets the first of the new events of a journal and the third, but not the second,
    goes on behind the third. So those of a segment are written as one batch, which readers see as
    a whole; if they are too many for one (`in_order`), each batch waits for the one before it.
    """
    place = ("topic", "id", "segment")
    grouped = rows.select(*JOURNAL_ROWS, WRITE_TIME).repartition(*place)
    connector.write(
        grouped.sortWithinPartitions(*place, "seq_nr"),
        settings.kafka_journal_keyspace,
        settings.kafka_journal_table,
        write_time=WRITE_TIME,
        in_order=in_order,
    )


@shaped(rows=WRITTEN_ROWS)
def overwrite_events(rows: DataFrame, settings: Settings) -> None:
    """Write rows of journal over others; what a record leaves out is deleted."""
    connector.write(
        rows.select(*JOURNAL_ROWS, WRITE_TIME),
        settings.kafka_journal_keyspace,
        settings.kafka_journal_table,
        keep_nulls=True,
        write_time=WRITE_TIME,
    )


@shaped(heads=CHANGED_HEADS)
def write_heads(heads: DataFrame, settings: Settings, at: datetime) -> None:
    """Write heads as they are after their actions; `at` is when that is."""
    now = F.lit(at)
    stored = [name for name in HEAD_FIELDS if name not in ("is_new", "expire_after")]
    is_new = F.col("head")["is_new"]
    rows = heads.select(
        *JOURNAL_KEY,
        *(F.col("head")[name].alias(name) for name in stored),
        cql_duration.text(F.col("head")["expire_after"]).alias("expire_after"),
        now.alias("updated"),
        F.when(is_new, now).alias("created"),
        F.when(is_new, F.to_date(now)).alias("created_date"),
        WRITE_TIME,
    )
    _write(rows, settings)


def loses_expiry() -> Column:
    """Tell whether the head `before` has an expiry, and the head after it has none."""
    head, before = F.col("head"), F.col("before")
    had = before["expire_after"].isNotNull() | before["expire_on"].isNotNull()
    return F.coalesce(~head["is_new"] & head["expire_after"].isNull() & had, F.lit(False))


@shaped(heads=CHANGED_HEADS)
def remove_expiry(heads: DataFrame, settings: Settings) -> None:
    """Delete the expiry of heads whose last append has none."""
    nothing = {"expire_after": "string", "expire_on": "date"}
    _remove(heads.where(loses_expiry()), settings, nothing)


@shaped(heads=CHANGED_HEADS)
def remove_delete_to(heads: DataFrame, settings: Settings) -> None:
    """Delete the `delete_to` of heads that have one, and should have none."""
    loses = F.col("before")["delete_to"].isNotNull() & F.col("head")["delete_to"].isNull()
    _remove(heads.where(loses), settings, {"delete_to": "bigint"})


def _remove(heads: DataFrame, settings: Settings, columns: Shape) -> None:
    rows = heads.select(
        *JOURNAL_KEY,
        F.col("head")["segment"].alias("segment"),
        *(F.lit(None).cast(kind).alias(name) for name, kind in columns.items()),
        WRITE_TIME,
    )
    _write(rows, settings, keep_nulls=True)


def _write(rows: DataFrame, settings: Settings, *, keep_nulls: bool = False) -> None:
    connector.write(
        rows,
        settings.kafka_journal_keyspace,
        settings.kafka_metajournal_table,
        keep_nulls=keep_nulls,
        write_time=WRITE_TIME,
    )
