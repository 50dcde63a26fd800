"""How large events and snapshots are, so that a page of them fills nobody's memory.

A page is a number of rows, and Cassandra (5.0) makes it of whole rows in its heap, whatever columns
are asked for. Of events of a megabyte a usual page is gigabytes: a scan, even of the keys, would
end the server.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from tidemark.cassandra import connector
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import identifier, table
from tidemark.errors import CassandraUnavailable
from tidemark.settings import Settings

_UNKNOWN = 16 << 10
_PARTITIONS = 8
_ROWS = 2
"""Of each partition. Partitions come in the order of their hashes, so the first are any."""


def measure(control: Control, spark: SparkSession, settings: Settings) -> None:
    """Take samples of the tables that there are, and let the session read accordingly.

    Raises:
        CassandraUnavailable: Cassandra does not say which tables there are.
    """
    size = _sampled(control, settings.journal_keyspace, settings.journal_table, ("event", "meta"))
    # What a tag view repeats.
    for name in (settings.journal_table, settings.events_by_tag_table):
        connector.expect(spark, settings.journal_keyspace, name, size)
    kafka = (settings.kafka_journal_keyspace, settings.kafka_journal_table)
    connector.expect(spark, *kafka, _sampled(control, *kafka, ("payload_txt", "payload_bin")))
    snapshots = (settings.snapshot_keyspace, settings.snapshot_table)
    connector.expect(
        spark, *snapshots, _sampled(control, *snapshots, ("snapshot_data", "snapshot"))
    )


def _sampled(control: Control, keyspace: str, name: str, columns: Sequence[str]) -> float:
    """Mean bytes (characters of a text) of those columns together; 0 without that table.

    A guess, on the large side, if they cannot be read.
    """
    known = control.table_columns(keyspace, name) or {}
    wanted = [column for column in columns if column in known]
    if not wanted:
        return 0.0
    try:
        rows = control.execute(
            f"SELECT {', '.join(map(identifier, wanted))} FROM {table(keyspace, name)}"
            f" PER PARTITION LIMIT {_ROWS} LIMIT {_PARTITIONS * _ROWS}"
        )
    except CassandraUnavailable:
        # Too many tombstones before the first rows, say. What reads by key need not fail for that.
        return _UNKNOWN
    size = sum(len(row[column] or b"") for row in rows for column in wanted)
    return size / max(1, len(rows))
