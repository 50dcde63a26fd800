"""The columns of `events` and of tag rules that tell an event's type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidemark.projection.testing import run_projection
from tidemark.spark.shapes import ddl
from tidemark.tag_write import rules, shapes

AT = "2013-01-01T00:00:00Z"
HEADER = """\
/*---
name: fares
version: 1
source: messages
mode: append
target: t.fares
event: amount INT
{more}
---*/
"""
TYPES = (
    HEADER.format(more="")
    + """\
SELECT persistence_id, sequence_nr, time_bucket, serializer_id, manifest, event_manifest,
  metadata.serializer_id AS meta_id, metadata.manifest AS meta_manifest,
  string(metadata.payload) AS meta
FROM events
"""
)
KNOWN = {"serializer_id": 33, "manifest": "acme.Fared", "event_manifest": "v2"}


def event(number: int, **more: Any) -> dict[str, Any]:
    return {"persistence_id": "p|1", "sequence_nr": number, "timestamp": AT, "amount": 1, **more}


def test_a_definition_sees_the_type_and_the_metadata_of_each_event(spark: SparkSession) -> None:
    metadata = {"serializer_id": 9, "manifest": "user", "payload": b"alice"}
    rows = run_projection(
        TYPES, [event(1, **KNOWN, metadata=metadata), event(2, manifest="acme.Cancelled")],
        spark=spark,
    )  # fmt: skip
    first, second = sorted(rows, key=lambda row: row["sequence_nr"])
    assert {name: first[name] for name in KNOWN} == KNOWN
    assert (first["meta_id"], first["meta_manifest"], first["meta"]) == (9, "user", "alice")
    assert (second["manifest"], second["meta"]) == ("acme.Cancelled", None)


def test_a_decoder_is_chosen_by_manifest_alone(spark: SparkSession) -> None:
    rules_by_manifest = "decoders: [{manifest: Fared, kind: json}, skip]"
    text = HEADER.format(more=rules_by_manifest) + (
        "SELECT persistence_id, sequence_nr, time_bucket, amount FROM events"
    )
    events = [
        event(1, serializer_id=1, manifest="Fared"),
        event(2, serializer_id=2, manifest="Fared"),
        event(3, serializer_id=1, manifest="Cancelled"),
    ]
    rows = run_projection(text, events, spark=spark)
    assert sorted(row["sequence_nr"] for row in rows) == [1, 2]


def test_a_tag_rule_sees_the_type_and_the_metadata_of_each_event(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "rule.sql").write_text(
        "/*---\ntag: alice\nevent: amount INT\n---*/\n"
        "manifest = 'acme.Fared' AND serializer_id = 33 AND event_manifest = 'v2'"
        " AND string(metadata.payload) = 'alice'"
    )
    loaded = rules.load(tmp_path)
    rules.check(spark, loaded)
    stored = {"ser_id": 33, "ser_manifest": "acme.Fared", "event_manifest": "v2", "event": b"{}"}
    rows: list[Any] = [
        {**dict.fromkeys(shapes.READ), **stored, "sequence_nr": number, "meta": meta}
        for number, meta in enumerate([b"alice", b"bob", None])
    ]
    messages = spark.createDataFrame(rows, ddl(shapes.READ))
    tagged = rules.with_rule_tags(messages, loaded).orderBy("sequence_nr").collect()
    assert [row.tags for row in tagged] == [["alice"], [], []]
