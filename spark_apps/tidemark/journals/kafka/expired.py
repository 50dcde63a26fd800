"""Expired journals of kafka-journal, and their remaining events."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, datetime
from zoneinfo import ZoneInfo

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import TableShape, require_tables, table
from tidemark.journals.kafka.tables import JOURNAL_KEY, METAJOURNAL
from tidemark.settings import Settings
from tidemark.spark.shapes import Shape, shaped

EXPIRING = TableShape(
    columns={
        **METAJOURNAL.columns,
        "partition": "int",
        "offset": "bigint",
        "expire_on": "date",
    },
    partition_key=METAJOURNAL.partition_key,
    clustering=METAJOURNAL.clustering,
)
POINTER = TableShape(
    columns={"topic": "text", "partition": "int", "offset": "bigint"},
    partition_key=("topic", "partition"),
)
SEGMENTS: Shape = {**JOURNAL_KEY, "segment": "bigint"}
LEFT: Shape = {
    **JOURNAL_KEY,
    "seq_nr": "bigint",
    "epoch_ms": "bigint",
    "partition": "int",
    "offset": "bigint",
}
"""Rows of journal without payload."""


def expire_on(at: Column, expire_after: Column, zone: str) -> Column:
    """Return the date in a time zone on which a journal expires.

    `at` is the time of its last append, a timestamp; `expire_after` is in nanoseconds.
    """
    micros = F.call_function("div", expire_after, F.lit(1000))
    return F.to_date(F.from_utc_timestamp(F.timestamp_micros(F.unix_micros(at) + micros), zone))


def require_expiry(control: Control, settings: Settings) -> None:
    """Require tables with the columns of expiry, and with pointers.

    Raises:
        SchemaMismatch: a table is missing or differs; the message names every difference.
    """
    require_tables(
        control,
        settings.kafka_journal_keyspace,
        {settings.kafka_metajournal_table: EXPIRING, settings.kafka_pointer_table: POINTER},
        made_by="kafka-journal's replicator",
        setting="TIDEMARK_KAFKA_JOURNAL_KEYSPACE",
    )


def replicated(control: Control, settings: Settings) -> dict[tuple[str, int], int]:
    """Read the last replicated Kafka offset, by topic and Kafka partition."""
    name = table(settings.kafka_journal_keyspace, settings.kafka_pointer_table)
    rows = control.execute(f"SELECT topic, partition, offset FROM {name}")
    return {(row["topic"], row["partition"]): row["offset"] for row in rows}


def day_of(moment: datetime, settings: Settings) -> date:
    """Return the date of a moment in the time zone in which `expire_on` is computed."""
    return moment.astimezone(ZoneInfo(settings.kafka_journal_zone)).date()


def has_expired(expire_on: Column, today: date) -> Column:
    """Return whether a journal has expired: the day `expire_on` is over.

    `expire_on` is the date of the last append plus its expireAfter, so a journal may be needed
    until the last minute of that day; null never expires. `today` is from `day_of`.
    """
    return F.coalesce(expire_on < F.lit(today), F.lit(False))


@shaped(returns=JOURNAL_KEY)
def expired_journals(
    spark: SparkSession, settings: Settings, today: date, topics: Collection[str]
) -> DataFrame:
    """Read the keys of journals with an expired head, by one scan of metajournal.

    Upstream's index on `expire_on` finds the journals of one date only; journals of a day without
    a purge would never be found. `today` is from `day_of`; without `topics` all are read.
    """
    heads = connector.read(
        spark,
        settings.kafka_journal_keyspace,
        settings.kafka_metajournal_table,
        *("topic", "segment", "id", "expire_on"),
    )
    is_expired = has_expired(F.col("expire_on"), today)
    if topics:
        is_expired = is_expired & F.col("topic").isin(*topics)
    return heads.where(is_expired).select(*JOURNAL_KEY).distinct()


@shaped(segments=SEGMENTS, returns=LEFT)
def rows_left(segments: DataFrame, settings: Settings) -> DataFrame:
    """Read the rows of some segments of journal, by direct join."""
    rows = connector.read_partitions(
        segments.select("id", "topic", "segment"),
        settings.kafka_journal_keyspace,
        settings.kafka_journal_table,
        *("topic", "id", "seq_nr", "timestamp", "partition", "offset"),
    )
    return rows.withColumn("epoch_ms", F.unix_millis("timestamp")).drop("timestamp")
