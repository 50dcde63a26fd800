"""Frames of records: Spark and Python read the same, and agree with kafka-journal's own code."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.unit.conftest import Examples
from tests.unit.journals.test_kafka_journal_wire import FIXTURES, RECORDS, STAMP, record_of
from tidemark.journals.kafka.wire import decode, spark_decoder
from tidemark.journals.kafka.wire.record import Record
from tidemark.journals.kafka.wire.shapes import DECODED

CONTENT = {
    name: kind
    for name, kind in DECODED.items()
    if name not in ("topic", "partition", "offset", "timestamp")
}
RECORD_DDL = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary,"
    " headers array<struct<key:string,value:binary>>"
)


def rows_of(records: list[Any]) -> list[tuple[Any, ...]]:
    return [
        ("journal", 0, offset, one.timestamp, one.key, one.value, list(one.headers))
        for offset, one in enumerate(records)
    ]


def test_frames_decode_to_the_rows_of_kafka_journal(spark: SparkSession) -> None:
    records = spark.createDataFrame(rows_of([record_of(one) for one in RECORDS]), RECORD_DDL)
    rows = decode.decoded(records).orderBy("offset").collect()
    assert len(rows) == len(RECORDS) == len(FIXTURES["encoded"]) + len(FIXTURES["from_resources"])
    for row, fixture in zip(rows, RECORDS, strict=True):
        expected = fixture["decoded"]
        assert row["cause"] is None, fixture["name"]
        assert (row["id"], row["action"], row["origin"], row["version"]) == tuple(
            expected[name] for name in ("key", "action", "origin", "version")
        ), fixture["name"]
        expiry = expected.get("expireAfter_ms")
        assert row["expire_after"] == (None if expiry is None else expiry * 1_000_000)
        events = [
            {
                "seq_nr": event["seq_nr"],
                "tags": sorted(event["tags"]),
                "payload_type": event["payload_type"],
                "payload_txt": event["payload_txt"],
                "payload_bin_hex": None
                if event["payload_bin"] is None
                else bytes(event["payload_bin"]).hex(),
                "metadata": row["metadata"],
                "headers": row["headers"],
            }
            for event in row["events"] or ()
        ]
        wanted = [{**one, "tags": sorted(one["tags"])} for one in expected.get("rows", [])]
        assert events == wanted, fixture["name"]


def test_usual_records_are_read_without_python(spark: SparkSession) -> None:
    """Else each payload would go to a Python process and back."""
    names = [one["name"] for one in RECORDS]
    records = spark.createDataFrame(rows_of([record_of(one) for one in RECORDS]), RECORD_DDL)
    told = (
        spark_decoder.with_usual(records, CONTENT)
        .where("usual IS NOT NULL")
        .select("offset")
        .collect()
    )
    by_spark = {names[row["offset"]] for row in told}
    assert {
        "append-binary-one",
        "append-binary-empty-bytes",
        "delete",
        "delete-no-origin-no-version",
        "purge",
        "purge-no-origin-no-version",
        "mark",
    } <= by_spark
    assert not by_spark & {"append-json-one", "append-mixed-with-one-binary", "append-binary-many"}


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
SIZED = st.binary(max_size=6).map(lambda value: struct.pack(">i", len(value)) + value)


@st.composite
def binary_events(draw: st.DrawFn) -> bytes:
    tags = b"".join(
        struct.pack(">i", len(tag)) + tag
        for tag in draw(st.lists(TEXTS.map(str.encode), max_size=3))
    )
    return (
        struct.pack(">q", draw(st.integers(0, 3) | st.integers(0, 2**63 - 1)))
        + struct.pack(">i", len(tags))
        + tags
        + bytes([draw(st.sampled_from([0, 1, 1, 1, 2, 3, 3, 4]))])
        + draw(
            SIZED | TEXTS.map(lambda text: struct.pack(">i", len(text.encode())) + text.encode())
        )
    )


@st.composite
def binary_values(draw: st.DrawFn) -> bytes:
    """What a writer makes, with one byte changed, cut or added now and then."""
    events = draw(st.lists(binary_events(), max_size=3))
    value = bytes([draw(st.sampled_from([1, 1, 1, 0, 2]))]) + struct.pack(">i", len(events))
    value += b"".join(struct.pack(">i", len(event)) + event for event in events)
    value += draw(st.sampled_from([b"{}", b"{}", b"{}", b"", b"{} ", b'{"data":1}']))
    place = draw(st.integers(0, len(value) - 1))
    changed = value[:place] + draw(st.binary(max_size=2)) + value[place + 1 :]
    return draw(st.sampled_from([value, value, changed, value[:place]]))


NAMES = st.sampled_from(["journal.action", "a", "b"])
HEADERS = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=2)), max_size=2)
ACTIONS = st.sampled_from(
    [
        b'{"append":{"range":{"from":1,"to":1},"payloadType":"binary","metadata":{}}}',
        b'{"append":{"range":{"from":2,"to":1},"payloadType":"binary","metadata":{}}}',
        b'{"append":{"range":{"from":1,"to":2},"origin":"o","version":"v","payloadType":"binary",'
        b'"metadata":{}}}',
        b'{"append":{"range":{"from":1,"to":2},"origin":"\xff","payloadType":"binary",'
        b'"metadata":{}}}',
        b'{"delete":{"to":3}}',
        b'{"delete":{"to":3,"origin":"o","version":"v"}}',
        b'{"delete":{"to":0}}',
        b'{"purge":{}}',
        b'{"purge":{"origin":"o"}}',
        b'{"purge":{"origin":"","version":"v"}}',
        b'{"purge":{,"version":"v"}}',
        b'{"mark":{"id":"m"}}',
        b"{",
    ]
)
KEYS = st.sampled_from([b"id", b"id", b"\xff", None])


RECORD = st.builds(lambda *fields: fields, KEYS, ACTIONS, HEADERS, binary_values())


def test_spark_reads_what_python_reads(spark: SparkSession, examples: Examples) -> None:
    """The rule has two forms: one by Spark's functions, and one that has the last word."""
    records = [
        Record(key, STAMP, [("journal.action", action), *headers], value)
        for key, action, headers, value in examples(RECORD, 300)
    ]
    frame = spark.createDataFrame(rows_of(records), RECORD_DDL)
    told = spark_decoder.with_usual(frame, CONTENT).select("offset", "usual")
    for row in told.where("usual IS NOT NULL").collect():
        by_python = dict.fromkeys(CONTENT) | decode.row(records[row["offset"]])
        by_spark = row["usual"].asDict(recursive=True)
        for content in (by_spark, by_python):
            for event in content["events"] or ():
                event["tags"] = sorted(event["tags"])
        assert by_spark == by_python
