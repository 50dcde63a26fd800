"""The ways from rows of the journal to events, and from results to stored rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import types as T

from tests.unit.project.decoder_payloads import MISMATCH, event_rows
from tidemark.partitioning import keys
from tidemark.project.transformation import transform

FIELDS = T.StructType(
    [
        T.StructField("kind", T.StringType()),
        T.StructField("delay", T.IntegerType()),
        T.StructField("at", T.TimestampType()),
    ]
)
EPOCH_MS = 1_356_998_400_000


def timeuuid(epoch_ms: int) -> str:
    ticks = epoch_ms * keys.TICKS_PER_MS + keys.UUID_EPOCH_TICKS
    return (
        f"{ticks & 0xFFFFFFFF:08x}-{ticks >> 32 & 0xFFFF:04x}-1{ticks >> 48:03x}-8000-000000000001"
    )


def row(
    persistence_id: str,
    sequence_nr: int,
    payload: bytes | None = b"{}",
    *,
    tags: list[str] | None = None,
    epoch_ms: int = EPOCH_MS,
) -> tuple[Any, ...]:
    ticks = epoch_ms * keys.TICKS_PER_MS + keys.UUID_EPOCH_TICKS
    return (
        persistence_id, sequence_nr, timeuuid(epoch_ms), ticks, EPOCH_MS, tags, 20, "", payload
    )  # fmt: skip


def decoded(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return transform.decode(transform.distinct_events(event_rows(spark, rows)), FIELDS)


def one(frame: DataFrame) -> Row:
    (only,) = frame.collect()
    return only


def test_an_event_of_several_tags_comes_once_with_all_of_them(spark: SparkSession) -> None:
    rows = [row("a|1", 1, tags=["LGA"]), row("a|1", 1, tags=["JFK"]), row("a|1", 2)]
    events = decoded(spark, *rows).orderBy("sequence_nr").select("sequence_nr", "tags").collect()
    assert events == [(1, ["JFK", "LGA"]), (2, [])]


def test_of_two_times_of_one_event_the_earlier_counts(spark: SparkSession) -> None:
    rows = [row("a|1", 1, b'{"delay":2}', epoch_ms=EPOCH_MS + 1), row("a|1", 1, b'{"delay":1}')]
    assert one(decoded(spark, *rows).select("delay")).delay == 1


def test_decode_gives_the_envelope_and_the_declared_fields(spark: SparkSession) -> None:
    payload = b'{"kind":"d\xc3\xa9part","delay":-3,"at":"2013-01-01T05:15:00Z","other":[1]}'
    event = one(
        transform.readable(decoded(spark, row("aircraft|N1", 7, payload, epoch_ms=EPOCH_MS + 5)))
    ).asDict()
    assert event == {
        "persistence_id": "aircraft|N1",
        "sequence_nr": 7,
        # The session is in UTC; Python gets local time.
        "timestamp": datetime.fromtimestamp((EPOCH_MS + 5) / 1000),
        "time_bucket": EPOCH_MS,
        "entity_type": "aircraft",
        "slice": keys.slice_of("aircraft|N1"),
        "tags": [],
        "serializer_id": 20,
        "manifest": "",
        "event_manifest": None,
        "metadata": None,
        "kind": "départ",
        "delay": -3,
        "at": datetime(2013, 1, 1, 5, 15, tzinfo=UTC).astimezone().replace(tzinfo=None),
    }


@pytest.mark.parametrize(
    ("payload", "cause"),
    [
        (b'{"kind":"a"}', None),
        (b'{"kind":null,"delay":null}', None),
        (b"{}", None),
        (b"not json", "not JSON"),
        (b'{"kind":"a"', "not JSON"),
        (b"", "not JSON"),
        (b'"\xff"', "not UTF-8"),
        (None, "no payload"),
        (b"[1]", MISMATCH),
        (b'{"delay":"late"}', MISMATCH + ": delay is not INT"),
        (b'{"delay":1.5,"kind":"a"}', MISMATCH + ": delay is not INT"),
        (b'{"delay":9999999999}', MISMATCH + ": delay is not INT"),
        (
            b'{"at":"yesterday","delay":"late"}',
            MISMATCH + ": delay is not INT, at is not TIMESTAMP",
        ),
    ],
)
def test_a_payload_is_an_event_or_quarantined_with_its_bytes(
    spark: SparkSession, payload: bytes | None, cause: str | None
) -> None:
    frame = decoded(spark, row("a|1", 1, payload))
    quarantined = transform.unreadable(frame).select("timestamp", "cause", "event", "ser_id")
    expected = [] if cause is None else [(timeuuid(EPOCH_MS), cause, payload, 20)]
    assert quarantined.collect() == expected
    assert transform.readable(frame).count() == (cause is None)
    counts = one(transform.counts_by_bucket(frame)).asDict()
    assert counts.pop("bytes_read") == len(payload or b"")
    values = json.loads(payload or b"{}") if cause is None else {}
    filled = {name: int(values.get(name) is not None) for name in ("kind", "delay", "at")}
    assert counts.pop("filled") == filled
    assert counts == {
        "time_bucket": EPOCH_MS,
        "events_read": 1,
        "quarantined": len(expected),
        "readable": cause is None,
    }


def test_newest_keeps_the_highest_sequence_nr_and_orders_by_it_then_by_version(
    spark: SparkSession,
) -> None:
    result = spark.createDataFrame(
        [("a", 9, "old"), ("a", 10, None), ("b", 3, "only")],
        "persistence_id string, sequence_nr bigint, kind string",
    )
    rows = transform.newest(result, 2).orderBy("persistence_id").collect()
    assert rows == [("a", 10, None, 10_002), ("b", 3, "only", 3_002)]
    assert transform.newest(result, 999).agg({transform.WRITE_TIME: "max"}).first() == (10_999,)


def test_newest_shows_an_event_with_two_rows(spark: SparkSession) -> None:
    result = spark.createDataFrame(
        [("a", 1), ("a", 1)], "persistence_id string, sequence_nr bigint"
    )
    assert transform.newest(result, 1).count() == 2


def test_newest_by_slice_is_the_newest_event_time_of_each(spark: SparkSession) -> None:
    rows = [row("a|1", 1, epoch_ms=EPOCH_MS + 9), row("a|1", 2), row("a|2", 1)]
    newest = {
        newest_row.slice: newest_row.epoch_ms
        for newest_row in transform.newest_by_slice(decoded(spark, *rows)).collect()
    }
    assert newest == {keys.slice_of("a|1"): EPOCH_MS + 9, keys.slice_of("a|2"): EPOCH_MS}
