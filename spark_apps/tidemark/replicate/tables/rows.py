"""The bulk writes of events and heads; each row has the write time of its record."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.application.guarded_change import EnsureLocked
from tidemark.cassandra import connector
from tidemark.journals.kafka import cql_duration
from tidemark.journals.kafka.tables import JOURNAL_KEY
from tidemark.replicate.shapes import (
    CHANGED_HEADS,
    HEAD_FIELDS,
    JOURNAL_ROWS,
    WRITE_TIME,
    WRITTEN_ROWS,
)
from tidemark.replicate.tables.row_bytes import row_bytes
from tidemark.settings import Settings
from tidemark.spark.read_once import kept
from tidemark.spark.shapes import Shape, shaped

WAVES = 8
"""More waves would cost more jobs than journals with so many rows are worth."""
_EVENTS = (*JOURNAL_ROWS, WRITE_TIME)
_IN_ORDER = ("topic", "id", "segment", "seq_nr")


@shaped(rows=WRITTEN_ROWS)
def write_events(rows: DataFrame, settings: Settings) -> None:
    """Write rows of journal; a column that the record leaves out stays unset.

    A reader that meets the first and third new event of a journal, but not the second, continues
    after the third. So the events of a segment are written as one batch, which readers see
    atomically. If they are too many for one batch, they are written in waves (`write_in_waves`).
    All rows of a journal must be in one partition of the frame.
    """
    _write_events(rows.select(*_EVENTS).sortWithinPartitions(*_IN_ORDER), settings)


@shaped(rows=WRITTEN_ROWS)
def write_in_waves(rows: DataFrame, settings: Settings, ensure_locked: EnsureLocked) -> None:
    """Write rows of journals of which some have more rows than fit into a batch.

    A batch of a journal must be written before the next one is sent. Each wave writes the next
    batch of every journal, and begins when the wave before it has ended. The rows of a journal
    after the last wave are written batch by batch, as every wave costs a job. All rows of a journal
    must be in one partition of the frame.
    """
    with kept(waves(rows, settings.cassandra_batch_size)) as numbered:
        [row] = numbered.agg(F.sort_array(F.collect_set("wave")).alias("waves")).collect()
        for wave in row["waves"]:
            ensure_locked()
            of_wave = numbered.where(F.col("wave") == wave).drop("wave")
            _write_events(of_wave, settings, in_order=wave == WAVES)


@shaped(rows=WRITTEN_ROWS, returns={**WRITTEN_ROWS, "wave": "int"})
def waves(rows: DataFrame, batch_size: int) -> DataFrame:
    """Return rows with the wave in which each is written, WAVES for all further ones.

    The rows of a journal in a wave are of one segment, and fit into a batch of `batch_size` bytes,
    or are one row. Rows are sorted by wave, journal and seq nr in each partition of the frame.
    """
    of_journal = Window.partitionBy(*JOURNAL_KEY)
    in_order = of_journal.orderBy("segment", "seq_nr")
    row = F.struct("tags", "payload_txt", "payload_bin")
    sized = rows.select(*_EVENTS).withColumn("bytes", row_bytes(row))
    # The rows between two multiples of `room` have fewer bytes than `room`; with the row at the
    # first multiple they are no more than a batch.
    room = F.greatest(batch_size - F.max("bytes").over(of_journal), F.lit(1))
    begins_segment = F.lag("segment").over(in_order) != F.col("segment")
    measured = sized.withColumns({"room": room, "begins_segment": begins_segment})
    weight = F.col("bytes") + F.when(F.col("begins_segment"), F.col("room")).otherwise(0)
    up_to = F.sum(weight).over(in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    wave = F.least(F.floor(up_to / F.col("room")), F.lit(WAVES)).cast("int")
    return (
        measured.withColumn("wave", wave)
        .select(*_EVENTS, "wave")
        .sortWithinPartitions("wave", *_IN_ORDER)
    )


def _write_events(rows: DataFrame, settings: Settings, *, in_order: bool = False) -> None:
    connector.write(
        rows,
        settings.kafka_journal_keyspace,
        settings.kafka_journal_table,
        write_time=WRITE_TIME,
        in_order=in_order,
    )


@shaped(rows=WRITTEN_ROWS)
def overwrite_events(rows: DataFrame, settings: Settings) -> None:
    """Overwrite rows of journal; columns that a record leaves out are deleted."""
    connector.write(
        rows.select(*JOURNAL_ROWS, WRITE_TIME),
        settings.kafka_journal_keyspace,
        settings.kafka_journal_table,
        keep_nulls=True,
        write_time=WRITE_TIME,
    )


@shaped(heads=CHANGED_HEADS)
def write_heads(heads: DataFrame, settings: Settings, at: datetime) -> None:
    """Write heads as they are after their actions; `at` is the time of the run."""
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
    """Return whether the head `before` has an expiry, and the head after it has none."""
    head, before = F.col("head"), F.col("before")
    had = before["expire_after"].isNotNull() | before["expire_on"].isNotNull()
    return F.coalesce(~head["is_new"] & head["expire_after"].isNull() & had, F.lit(False))


@shaped(heads=CHANGED_HEADS)
def remove_expiry(heads: DataFrame, settings: Settings) -> None:
    """Delete the expiry of heads whose last append has none."""
    columns = {"expire_after": "string", "expire_on": "date"}
    _remove(heads.where(loses_expiry()), settings, columns)


@shaped(heads=CHANGED_HEADS)
def remove_delete_to(heads: DataFrame, settings: Settings) -> None:
    """Delete the `delete_to` of heads that have one and should not."""
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
