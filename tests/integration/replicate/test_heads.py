"""Heads as they are found in a real metajournal."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from cassandra.util import Duration
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.integration.replicate.replicator import LAST, TOPIC, Replicator, record_id, segment_of
from tests.integration.support import Journal
from tidemark.cassandra import connector
from tidemark.journals.kafka import cql_duration
from tidemark.replicate.tables.heads import heads_of
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows

pytestmark = pytest.mark.usefixtures("production")

DAY = 86_400 * 10**9
DURATIONS = {
    DAY: (1, 0),
    30 * DAY + 1: (30, 1),
    1_500_000_000: (0, 1_500_000_000),
    5 * 60 * 10**9 + 7_000: (0, 300_000_007_000),
    -DAY - 2: (-1, -2),
    106_000 * DAY + 86_399_999_999_999: (106_000, 86_399_999_999_999),
}
"""(days, nanoseconds) of CQL by nanoseconds."""


@pytest.fixture
def tables(journal: Journal) -> Replicator:
    """Return the replicator's tables, newly created."""
    return Replicator(journal)


@pytest.fixture
def settings(spark: SparkSession, journal: Journal, tables: Replicator) -> Settings:
    """Return the settings of the journal, to which the session is connected."""
    connector.connect(spark, journal.settings())
    return journal.settings().model_copy(update={"kafka_journal_keyspace": journal.keyspace})


def test_heads_are_found_where_either_release_has_put_them(
    spark: SparkSession, tables: Replicator, settings: Settings
) -> None:
    tables.head("new")
    old = segment_of("old", 100)
    tables.head("old", segment=old, segment_size=None, record_id=None, origin=None, delete_to=3)
    tables.head("both", segment=segment_of("both", 100), seq_nr=1)
    tables.head("both", expire_after=Duration(0, 2, 5), expire_on=date(2024, 3, 1))
    tables.head("elsewhere", segment=segment_of("elsewhere") + 1)
    tables.head("another topic", topic="others")
    names = ["new", "old", "both", "elsewhere", "another topic", "nowhere"]
    journals = local_rows(spark, [(TOPIC, name) for name in names], "topic string, id string")
    found = {row["id"]: row["head"].asDict() for row in heads_of(journals, settings).collect()}
    whole: dict[str, Any] = {
        "segment": segment_of("new"),
        "partition": 0,
        "offset": LAST * 10,
        "segment_size": 3,
        "seq_nr": LAST,
        "delete_to": None,
        "expire_after": None,
        "expire_on": None,
        "record_id": str(record_id("new")),
        "origin": "host-1",
        "is_new": False,
    }
    assert found == {
        "new": whole,
        "old": {
            **whole,
            **{"segment": old, "segment_size": None, "record_id": None, "origin": None},
            "delete_to": 3,
        },
        "both": {
            **whole,
            "segment": segment_of("both"),
            "record_id": str(record_id("both")),
            "expire_after": 2 * DAY + 5,
            "expire_on": date(2024, 3, 1),
        },
    }


def test_durations_are_read_and_written_as_cql_has_them(
    spark: SparkSession, journal: Journal, tables: Replicator, settings: Settings
) -> None:
    for nanoseconds, (days, rest) in DURATIONS.items():
        tables.head(str(nanoseconds), expire_after=Duration(0, days, rest))
    journal_rows = [(TOPIC, str(nanoseconds)) for nanoseconds in DURATIONS]
    journals = local_rows(spark, journal_rows, "topic string, id string")
    read = heads_of(journals, settings).select("topic", "id", "head.*")
    assert {int(row["id"]): row["expire_after"] for row in read.collect()} == {
        nanoseconds: nanoseconds for nanoseconds in DURATIONS
    }
    written = read.select(
        "topic",
        "segment",
        F.concat(F.lit("w"), "id").alias("id"),
        cql_duration.text(F.col("expire_after")).alias("expire_after"),
    )
    connector.write(written, journal.keyspace, "metajournal")
    rows = journal.control.execute(f"SELECT id, expire_after FROM {journal.keyspace}.metajournal")
    stored = {row["id"]: row["expire_after"] for row in rows}
    for nanoseconds, (days, rest) in DURATIONS.items():
        for name in (str(nanoseconds), f"w{nanoseconds}"):
            assert (name, stored[name]) == (name, Duration(0, days, rest))
