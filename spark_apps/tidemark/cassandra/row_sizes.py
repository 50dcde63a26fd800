"""The average sizes of rows, which bound the pages that reads request.

A page is a number of rows, and Cassandra (5.0) builds it from complete rows in its heap, whatever
columns a read requests. With events of a megabyte, a page of the usual number of rows takes
gigabytes: a scan, even of keys only, would crash the server.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import identifier, table
from tidemark.errors import CassandraUnavailable
from tidemark.settings import Settings

_UNKNOWN = 16 << 10
_PARTITIONS = 8
_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_VECTOR_BYTES = 64 << 20
"""Far below the limit of a vector, 2 GiB, because rows differ in size."""
_ROWS = 2
"""Sampled rows of each partition. Partitions come in hash order, so the first are random."""


def measure(control: Control, spark: SparkSession, settings: Settings) -> None:
    """Sample the existing tables and set their average row sizes for the session's reads."""
    # Before plugin 0.7 the payload was in the column `message`.
    payload = ("event", "meta", "message")
    size = _sampled(control, settings.journal_keyspace, settings.journal_table, payload)
    # A tag view repeats the payload of its message.
    for name in (settings.journal_table, settings.events_by_tag_table):
        expect(spark, settings.journal_keyspace, name, size)
    kafka = (settings.kafka_journal_keyspace, settings.kafka_journal_table)
    expect(spark, *kafka, _sampled(control, *kafka, ("payload_txt", "payload_bin")))
    snapshots = (settings.snapshot_keyspace, settings.snapshot_table)
    expect(spark, *snapshots, _sampled(control, *snapshots, ("snapshot_data", "snapshot")))


def sample(control: Control, spark: SparkSession, keyspace: str, name: str) -> None:
    """Sample any table, and set its average row size for the session's reads."""
    kinds = control.table_columns(keyspace, name) or {}
    long_columns = [column for column, kind in kinds.items() if kind in ("ascii", "blob", "text")]
    expect(spark, keyspace, name, _sampled(control, keyspace, name, long_columns))


def expect(spark: SparkSession, keyspace: str, table: str, size: float) -> None:
    """Set the average size of a table's rows, in bytes.

    Later reads then request no more at once than a server's memory allows, and Python workers get
    no more at once than fits into an Arrow vector.
    """
    spark.conf.set(_size_key(keyspace, table), str(max(1.0, size)))
    records = min(int(spark.conf.get(_RECORDS) or 1), int(_VECTOR_BYTES / max(1.0, size)))
    spark.conf.set(_RECORDS, str(max(1, records)))


def expected(spark: SparkSession, keyspace: str, table: str) -> float:
    """Return the average row size in bytes that `expect` has set for a table; 1 by default."""
    return float(spark.conf.get(_size_key(keyspace, table), "1") or 1)


def _size_key(keyspace: str, table: str) -> str:
    return f"tidemark.rowSize.{keyspace}.{table}"


def _sampled(control: Control, keyspace: str, name: str, columns: Sequence[str]) -> float:
    """Return the mean sum of bytes (characters for text) of the columns; 0 without the table.

    If no value can be read, the result is a large guess.
    """
    existing = control.table_columns(keyspace, name) or {}
    sampled = [column for column in columns if column in existing]
    if not sampled:
        return 0.0
    try:
        rows = control.execute(
            f"SELECT {', '.join(map(identifier, sampled))} FROM {table(keyspace, name)}"
            f" PER PARTITION LIMIT {_ROWS} LIMIT {_PARTITIONS * _ROWS}"
        )
    except CassandraUnavailable:
        # For example, too many tombstones before the first rows: reads by key still work.
        return _UNKNOWN
    # A partition with only a static column gives a row without any value.
    lengths = [[len(row[name]) for name in sampled if row[name] is not None] for row in rows]
    sizes = [sum(row_lengths) for row_lengths in lengths if row_lengths]
    if rows and not sizes:
        return _UNKNOWN
    return sum(sizes) / max(1, len(sizes))
