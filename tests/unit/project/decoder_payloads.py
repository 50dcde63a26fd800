"""Payloads of every kind, shared by the tests of the decoders' Python and Spark forms."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.project import shapes
from tidemark.project.analysis import analyze
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.definition.file import read

HEADER = """\
/*---
name: fares
version: 1
source: messages
mode: bucket
target: flights.fares
event: '{event}'
decoders: [{decoder}]
---*/
SELECT time_bucket FROM events
"""
EVENT = "kind STRING, delay INT, fare DECIMAL(9,2), raw BINARY"
EVENTS = (
    "persistence_id string, sequence_nr bigint, event_timeuuid string, ticks bigint, time_bucket"
    " bigint, tags array<string>, ser_id int, ser_manifest string, event binary"
)


def event_rows(spark: SparkSession, rows: Sequence[tuple[Any, ...]], more: str = "") -> DataFrame:
    """Return rows of EVENTS and more columns as `transform` takes them, without any metadata."""
    frame = spark.createDataFrame(rows, EVENTS + more)
    absent = {name: kind for name, kind in shapes.PAYLOAD.items() if name not in frame.columns}
    return frame.withColumns({name: F.lit(None).cast(kind) for name, kind in absent.items()})


AVRO_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Fared",
    "namespace": "acme",
    "fields": [
        {"name": "kind", "type": ["null", "string"]},
        {"name": "delay", "type": "int"},
        {"name": "seen", "type": "boolean"},
    ],
}
MODULE = """\
import pandas as pd

from prices import CENTS


def decode(payloads):
    return payloads.map(one)


def one(payload):
    kind, cents = payload.decode().split(":")
    return {"kind": kind, "fare": int(cents) / CENTS, "other": 1}


def frame(payloads):
    return pd.DataFrame({"kind": "a", "delay": payloads.map(lambda text: int(text) or None)})


def short(payloads):
    return [{}] * (len(payloads) - 1)


class Odd:
    pass


def odd(payloads):
    return [Odd(), {"kind": Odd()}, {"kind": "good"}, {"delay": "late"}][int(payloads[0]) :][:1]
"""

JSON = b'{"kind":"fared","delay":3,"other":[1]}'
FARED = {"kind": "fared", "delay": 3}
LONG = {"kind": "fared fared fared fared fared", "delay": 3}
MISMATCH = "not a JSON object whose fields have the declared types"

# Compressed by Java's gzip and by lz4-java 1.8.0, which Pekko uses, with the headers of Pekko.
JSON_GZIP = bytes.fromhex(
    "1f8b08000000000000ffab56cacecc4b51b2524a4b2c4a4d51c0412ae928a5a4e624562a5919eb28e59764a4162959"
    "451bc6d60200cf47c3df3e000000"
)
JSON_LZ4 = bytes.fromhex(
    "87d96df60000003eff007b226b696e64223a22666172656420060004f009222c2264656c6179223a332c226f746865"
    "72223a5b315d7d"
)
CBOR_GZIP = bytes.fromhex(
    "1f8b08000000000000ffdb9f929d999752219b9658949aa2808304c29cc44ae6ff007ebea8bf2d000000"
)
CBOR_LZ4 = bytes.fromhex("87d96df60000002defbf646b696e64781d666172656420060004806564656c617903ff")
IMPOSSIBLE_LZ4 = "not LZ4: the length in its header is impossible"

JACKSON_JSON: list[tuple[bytes, Any]] = [
    (JSON_GZIP, LONG),
    (JSON_LZ4, LONG),
    (JSON_GZIP[:-9], "not gzip: it ends too early"),
    (JSON_GZIP[:2], "not gzip: it ends too early"),
    (
        JSON_GZIP[:12] + b"\xff" + JSON_GZIP[13:],
        "not gzip: Error -3 while decompressing data: invalid distance too far back",
    ),
    (JSON_LZ4[:-1], "not LZ4: the block is damaged"),
    (JSON_LZ4[:8], IMPOSSIBLE_LZ4),
    (JSON_LZ4[:4], IMPOSSIBLE_LZ4),
    (JSON_LZ4[:4] + b"\x7f\xff\xff\xff" + JSON_LZ4[8:], IMPOSSIBLE_LZ4),
    (b'"\xff"', "not UTF-8"),
    (JSON, FARED),
]

# RFC 8949: a map of indefinite length, as Jackson writes beans: kind "fared", delay 3.
CBOR = bytes.fromhex("bf 646b696e64 656661726564 6564656c6179 03 ff")
JACKSON_CBOR: list[tuple[bytes, Any]] = [
    (CBOR, FARED),
    (CBOR_GZIP, LONG),
    (CBOR_LZ4, LONG),
    (b"\xa0", {}),
    # fare: decimal fraction 273.15 (RFC 8949 section 3.4.4), raw: the bytes 00 ff, kind: null.
    (
        bytes.fromhex("a3 6466617265 c48221196ab3 63726177 4200ff 646b696e64 f6"),
        {"fare": Decimal("273.15"), "raw": b"\x00\xff"},
    ),
    (
        CBOR[:-1],
        "not CBOR: premature end of stream (expected to read at least 1 bytes, got 0 instead)",
    ),
    (bytes.fromhex("8101"), "not a CBOR map"),
    (
        bytes.fromhex("a1 8101 01"),
        "TypeError: keys must be str, int, float, bool or None, not tuple",
    ),
    (CBOR_GZIP[:9], "not gzip: it ends too early"),
]

# A field without presence has its type's default, as the sender meant; delay has presence.
BROKEN_PROTOBUF = (
    "not Protobuf: Error parsing message with type 'acme.Fared': Wire format was corrupt"
)
PROTOBUF = bytes.fromhex("0a05") + b"fared" + bytes.fromhex("1003")
PROTOBUFS: list[tuple[bytes, Any]] = [
    (PROTOBUF, FARED | {"raw": b""}),
    (bytes.fromhex("1a0200ff"), {"kind": "", "raw": b"\x00\xff"}),
    (b"", {"kind": "", "raw": b""}),
    (PROTOBUF[:-1], BROKEN_PROTOBUF),
    (PROTOBUF[:4], BROKEN_PROTOBUF),
    (b"\xff", BROKEN_PROTOBUF),
]

PYTHON: list[tuple[bytes, Any]] = [
    (b"a:1250", {"kind": "a", "fare": Decimal("12.50")}),
    (b"b:7", {"kind": "b", "fare": Decimal("0.07")}),
    (b"poison", "ValueError: not enough values to unpack (expected 2, got 1) (decoders.py:11)"),
    (b"c:x", "ValueError: invalid literal for int() with base 10: 'x' (decoders.py:12)"),
    (
        b"\xff",
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0:"
        " invalid start byte (decoders.py:11)",
    ),
]


def zigzag(number: int) -> bytes:
    """Encode a number as Avro does: zigzag, then seven bits a byte, the lowest first."""
    rest, written = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])


AVRO = zigzag(1) + zigzag(5) + b"fared" + zigzag(3) + b"\x01"
BROKEN_AVRO = "not Avro of fared.avsc"
AVROS: list[tuple[bytes, Any]] = [
    (AVRO, FARED),
    (zigzag(0) + zigzag(-200) + b"\x00", {"delay": -200}),
    (AVRO[:-2], BROKEN_AVRO),
    (b"", BROKEN_AVRO),
    (zigzag(7) + AVRO, BROKEN_AVRO),
    # The string claims the length of the longest Java array, for which no room must be made.
    (zigzag(1) + zigzag(2**31 - 10) + b"fared", BROKEN_AVRO),
]


def descriptor_set() -> bytes:
    """Describe `Fared {string kind=1; optional int32 delay=2; bytes raw=3; int64 seconds=4;}`."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="acme.proto", package="acme", syntax="proto3")
    message = file.message_type.add(name="Fared")
    message.oneof_decl.add(name="_delay")
    for name, number, kind in (
        ("kind", 1, field.TYPE_STRING),
        ("delay", 2, field.TYPE_INT32),
        ("raw", 3, field.TYPE_BYTES),
        ("seconds", 4, field.TYPE_INT64),
    ):
        message.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
    message.field[1].proto3_optional, message.field[1].oneof_index = True, 0
    serialized: bytes = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    return serialized


def check(
    spark: SparkSession, directory: Path, decoder: str | None, event: str = EVENT
) -> AnalyzedDefinition:
    """Write and check a definition with this decoder, beside its schemas and modules."""
    (directory / "fared.avsc").write_text(json.dumps(AVRO_SCHEMA))
    (directory / "acme.desc").write_bytes(descriptor_set())
    (directory / "decoders.py").write_text(MODULE)
    (directory / "prices.py").write_text("CENTS = 100\n")
    file = directory / "fares.sql"
    text = HEADER.format(event=event, decoder=decoder)
    file.write_text(text if decoder else text.replace("decoders: [None]\n", ""))
    return analyze.analyze(spark, read(file))
