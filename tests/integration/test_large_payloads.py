"""The page sizes of large events: Cassandra holds a page of whole rows in its heap."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from pyspark.sql import SparkSession

from tests.integration.support import Journal
from tidemark.cassandra import connector, row_sizes
from tidemark.journals.pekko import frames
from tidemark.journals.pekko import tables as journal_tables
from tidemark.spark.local_rows import local_rows

EVENTS = 60
SIZE = 200_000
LARGEST_PAGE = 4 << 20


def test_neither_a_scan_nor_a_direct_join_asks_for_more_than_a_page_of_4_mib(
    make_journal: Callable[..., Journal], spark: SparkSession
) -> None:
    journal = make_journal()
    settings = journal.settings()
    for number in range(1, EVENTS + 1):
        event = {
            "persistence_id": "large",
            "partition_nr": 0,
            "sequence_nr": number,
            "timestamp": uuid.uuid1(),
            "timebucket": "0",
            "ser_id": 1,
            "event": b"x" * SIZE,
        }
        journal.insert("messages", [event])
    connector.connect(spark, settings)
    keys = local_rows(spark, [("large", 0)], "persistence_id string, partition_nr bigint")

    def read() -> tuple[int, int]:
        """Return how many pages a scan and a direct join take."""
        before = asked(journal, "scan"), asked(journal, "read")
        assert len(frames.message_index(spark, settings).collect()) == EVENTS
        assert len(frames.messages_of(keys, settings).collect()) == EVENTS
        return asked(journal, "scan") - before[0], asked(journal, "read") - before[1]

    unknown = read()
    row_sizes.measure(journal.control, spark, settings)
    limited = read()
    more = EVENTS * SIZE // LARGEST_PAGE
    assert limited[0] - unknown[0] >= more
    assert limited[1] - unknown[1] >= more


def asked(journal: Journal, kind: str) -> int:
    """Return how many pages of messages Cassandra was asked for, by a scan or by key."""
    rows = journal.control.execute(
        f"SELECT count FROM system_views.coordinator_{kind}_latency"
        " WHERE keyspace_name = ? AND table_name = ?",
        (journal.keyspace, journal_tables.MESSAGES),
    )
    return sum(row["count"] for row in rows)
