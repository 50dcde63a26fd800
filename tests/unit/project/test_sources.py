"""The envelope of kafka-journal's events, the readable window, and definitions of ids."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from tidemark.journals.kafka import frames
from tidemark.partitioning import keys
from tidemark.project.position.ready import ended_buckets
from tidemark.projection.testing import run_projection
from tidemark.settings import Settings

MOMENT = datetime(2024, 3, 1, 10, 59, 59, 999_000, tzinfo=UTC)
MOMENT_MS = int(MOMENT.timestamp() * 1000)
STORED = (
    "id string, seq_nr bigint, timestamp timestamp, tags array<string>, payload_type string,"
    " payload_txt string, payload_bin binary, metadata string"
)


@pytest.mark.parametrize(
    ("payload", "manifest", "event"),
    [
        (("json", '{"a":1}', None), "json", b'{"a":1}'),
        (("text", "na\u00efve", None), "text", "na\u00efve".encode()),
        (("binary", None, b"\x00\xff"), "binary", b"\x00\xff"),
        (("binary", None, b""), "binary", b""),
        # Upstream reads a type that it does not know as binary.
        (("avro", None, b"\x01"), "avro", b"\x01"),
        ((None, None, None), "", None),
    ],
)
def test_an_event_of_kafka_journal_in_the_envelope(
    spark: SparkSession,
    payload: tuple[str | None, str | None, bytes | None],
    manifest: str,
    event: bytes | None,
) -> None:
    stored = spark.createDataFrame(
        [("Order-7", 3, MOMENT, ["x", "y"], *payload, '{"a":1}')], STORED
    )
    (row,) = frames.enveloped(stored, Settings()).collect()
    assert row.asDict() == {
        "persistence_id": "Order-7",
        "sequence_nr": 3,
        "timestamp": keys.ticks_timeuuid(row.ticks, clock_sequence=0, node=0),
        "ticks": MOMENT_MS * 10_000 + keys.UUID_EPOCH_TICKS,
        "time_bucket": MOMENT_MS // 3_600_000 * 3_600_000,
        "tags": ["x", "y"],
        "ser_id": 0,
        "ser_manifest": manifest,
        "event": event,
        "event_manifest": "",
        "meta_ser_id": None,
        "meta_ser_manifest": "json",
        "meta": bytearray(b'{"a":1}'),
    }


@pytest.mark.parametrize(
    ("until", "expected"),
    [(3599, []), (3600, [0]), (2 * 3600, [0, 1]), (10 * 3600, [0, 1, 2])],
)
def test_time_buckets_of_kafka_journal_may_be_read_when_they_have_ended(
    until: int, expected: Sequence[int]
) -> None:
    hour = 3_600_000
    buckets = ended_buckets(Settings(), 0, 3 * hour, until * 1000)
    assert sorted(buckets) == [number * hour for number in expected]


def test_a_definition_of_persistence_ids_sees_no_others(spark: SparkSession) -> None:
    definition = """\
/*---
name: some
version: 1
source: {persistence-ids: [a|1, a |2]}
mode: append
target: x.some
event: n INT
---*/

SELECT persistence_id, sequence_nr, n FROM events
"""
    events = [
        {"persistence_id": pid, "sequence_nr": 1, "timestamp": "2024-03-01T00:00:00Z", "n": n}
        for n, pid in enumerate(["a|1", "a|2", "a |2", "b|1"])
    ]
    rows = run_projection(definition, events, spark=spark)
    assert {(row["persistence_id"], row["n"]) for row in rows} == {("a|1", 0), ("a |2", 2)}
