"""project over a journal of several serializers, through a real Cassandra and Python workers."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import cbor2

from tests.integration.project.projections import counts
from tests.integration.support import Journal
from tests.unit.project.test_payload_bombs import diamond
from tidemark.cassandra.schema import create_own_tables
from tidemark.partitioning import keys

START_MS = 1_709_251_200_000
WINDOW = ("--window-start", "2024-03-01T00:00:00Z", "--window-end", "2024-03-01T01:00:00Z")

FARES = """\
/*---
name: fares
version: 1
source: messages
mode: upsert
target: {keyspace}.fares
on-error: skip
event: kind STRING, fare DOUBLE
decoders:
  - {serializer-id: 31, kind: jackson-json}
  - {serializer-id: 33, manifest: acme.Fared, kind: jackson-cbor}
  - {serializer-id: 20, kind: string, field: kind}
  - {serializer-id: 1003, kind: python, function: decoders:decode}
  - {serializer-id: 99, kind: skip}
---*/

SELECT persistence_id, sequence_nr, kind, fare FROM events
"""
MODULE = """\
def decode(payloads):
    return payloads.map(lambda payload: {"kind": "python", "fare": float(payload)})
"""


def message(number: int, ser_id: int, payload: bytes, manifest: str = "") -> dict[str, Any]:
    ticks = keys.epoch_ms_ticks(START_MS + number)
    return {
        "persistence_id": f"p|{number}",
        "partition_nr": 0,
        "sequence_nr": 1,
        "timestamp": UUID(keys.ticks_timeuuid(ticks, clock_sequence=1, node=number)),
        "timebucket": str(START_MS),
        "writer_uuid": "w",
        "ser_id": ser_id,
        "ser_manifest": manifest,
        "event_manifest": "",
        "event": payload,
    }


def test_each_serializer_is_read_by_its_decoder_and_poison_is_quarantined(
    journal: Journal, tmp_path: Path
) -> None:
    keyspace = journal.keyspace
    (tmp_path / "fares.sql").write_text(FARES.replace("{keyspace}", keyspace))
    (tmp_path / "decoders.py").write_text(MODULE)
    journal.control.execute_ddl(
        f"CREATE TABLE {keyspace}.fares"
        " (persistence_id text PRIMARY KEY, sequence_nr bigint, kind text, fare double)"
    )
    fared = {"kind": "jackson", "fare": 1.5}
    journal.insert(
        "messages",
        [
            message(1, 31, json.dumps(fared).encode()),
            message(2, 31, gzip.compress(json.dumps(fared).encode())),
            message(3, 33, cbor2.dumps(fared), "acme.Fared"),
            message(4, 20, b"plain text"),
            message(5, 1003, b"2.5"),
            message(6, 99, b"not read"),
            message(7, 1003, b"poison"),
            message(8, 33, cbor2.dumps(fared), "acme.Other"),
        ],
    )
    create_own_tables(journal.control, journal.settings())
    result = journal.run("project", *WINDOW, "--force", PROJECTIONS_DIR=str(tmp_path))
    assert result.status == 0, result.stderr
    assert result.report["counts"] == counts(
        events_read=8, rows_written=5, quarantined=2, accepted=8
    )
    rows = {row["persistence_id"]: (row["kind"], row["fare"]) for row in journal.rows("fares")}
    assert rows == {
        "p|1": ("jackson", 1.5),
        "p|2": ("jackson", 1.5),
        "p|3": ("jackson", 1.5),
        "p|4": ("plain text", None),
        "p|5": ("python", 2.5),
    }
    poison = {row["persistence_id"]: (row["cause"], row["event"]) for row in
              journal.own_rows("quarantine")}  # fmt: skip
    assert poison == {
        "p|7": (
            "ValueError: could not convert string to float: b'poison' (decoders.py:2)",
            b"poison",
        ),
        "p|8": ("no decoder for serializer id 33, manifest 'acme.Other'", cbor2.dumps(fared)),
    }


BOMBS = """\
/*---
name: fares
version: 1
source: messages
mode: upsert
target: {keyspace}.fares
on-error: skip
event: kind STRING, fare DECIMAL(9,2)
decoders:
  - {serializer-id: 33, kind: jackson-cbor}
  - {serializer-id: 1003, kind: python, function: decoders:decode}
  - jackson-json
---*/

SELECT persistence_id, sequence_nr, kind, fare FROM events
"""
HUNGRY = """\
def decode(payloads):
    return payloads.map(lambda payload: {"kind": str(len(b"x" * int(payload)))})
"""


def test_events_that_stand_for_much_are_quarantined_and_the_others_projected(
    journal: Journal, tmp_path: Path
) -> None:
    keyspace = journal.keyspace
    (tmp_path / "fares.sql").write_text(BOMBS.replace("{keyspace}", keyspace))
    (tmp_path / "decoders.py").write_text(HUNGRY)
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("spark.executor.pyspark.memory 1g\n")
    journal.control.execute_ddl(
        f"CREATE TABLE {keyspace}.fares"
        " (persistence_id text PRIMARY KEY, sequence_nr bigint, kind text, fare decimal)"
    )
    fared = json.dumps({"kind": "json", "fare": 1.5}).encode()
    journal.insert(
        "messages",
        [
            message(1, 31, fared),
            message(2, 33, diamond(30)),
            message(3, 33, cbor2.dumps({"kind": "cbor"})),
            message(4, 31, b'{"kind":"json","fare":1E100000000}'),
            message(5, 31, gzip.compress(b'{"kind":"' + b" " * 2**26 + b'"}')),
            message(6, 1003, b"1000000000"),
            message(7, 1003, b"1"),
            message(8, 31, gzip.compress(fared)),
        ],
    )
    create_own_tables(journal.control, journal.settings())
    alone = replace(journal, environment={**journal.environment, "SPARK_CONF_DIR": str(conf)})
    result = alone.run_alone("project", *WINDOW, "--force", PROJECTIONS_DIR=str(tmp_path))
    assert result.status == 0, result.stderr
    assert result.report["counts"] == counts(
        events_read=8, rows_written=4, quarantined=4, accepted=8
    )
    rows = {row["persistence_id"]: row["kind"] for row in journal.rows("fares")}
    assert rows == {"p|1": "json", "p|3": "cbor", "p|7": "1", "p|8": "json"}
    causes = {row["persistence_id"]: row["cause"] for row in journal.own_rows("quarantine")}
    assert causes == {
        "p|2": "more than 67,108,864 characters of JSON",
        "p|4": "a number whose exponent is beyond 999, or which has more than 1,000 digits",
        "p|5": "its content has more than 67,108,864 bytes",
        "p|6": "it takes more memory than a Python worker has",
    }
