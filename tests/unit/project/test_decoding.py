"""The decoding of payloads of every kind by Spark, good and poisoned ones in one frame."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from tests.unit.project import decoder_payloads as sample
from tests.unit.project.decoder_payloads import FARED, JSON, MISMATCH, event_rows
from tidemark.errors import root_cause
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.transformation import transform

Payload = tuple[int, str, bytes | None]
Check = Callable[..., AnalyzedDefinition]


@pytest.fixture
def check(spark: SparkSession, tmp_path: Path) -> Check:
    return partial(sample.check, spark, tmp_path)


def decoded(spark: SparkSession, checked: AnalyzedDefinition, *payloads: Payload) -> DataFrame:
    rows: list[tuple[Any, ...]] = [
        ("a|1", number, f"uuid-{number}", 0, 0, [], *payload)
        for number, payload in enumerate(payloads)
    ]
    return transform.decode(event_rows(spark, rows), checked.event, checked.decoders)


def outcomes(spark: SparkSession, checked: AnalyzedDefinition, *payloads: Payload) -> list[Any]:
    """Return for each payload its fields that are not null, or the cause of its quarantine."""
    frame = decoded(spark, checked, *payloads).persist()
    names = checked.event.names
    rows = transform.readable(frame).select("sequence_nr", *names).collect()
    by_number: dict[int, Any] = {
        row.sequence_nr: {name: row[name] for name in names if row[name] is not None}
        for row in rows
    }
    for row in transform.unreadable(frame).collect():
        assert (row.ser_id, row.ser_manifest, row.event) == payloads[row.sequence_nr]
        by_number[row.sequence_nr] = row.cause
    frame.unpersist()
    return [by_number.get(number) for number in range(len(payloads))]


def assert_outcomes(
    spark: SparkSession, checked: AnalyzedDefinition, *vectors: tuple[bytes | None, Any]
) -> None:
    """Check the outcomes; the first rule has serializer id 1, a missing payload is quarantined."""
    payloads = [(1, "m", payload) for payload, _ in vectors]
    actual = outcomes(spark, checked, *payloads, (1, "m", None))
    assert actual == [*(expected for _, expected in vectors), "no payload"]


@pytest.mark.parametrize(
    "decoder",
    [
        "{serializer-id: 1, kind: json}",
        "json",
        "{serializer-id: 1, manifest: m, kind: json}, {serializer-id: 1, kind: json}, json",
    ],
)
def test_json(spark: SparkSession, check: Check, decoder: str) -> None:
    assert_outcomes(
        spark,
        check(decoder),
        (JSON, FARED),
        (JSON[:-1], "not JSON"),
        (b'{"delay":"late"}', f"{MISMATCH}: delay is not INT"),
        (b'"\xff"', "not UTF-8"),
        (b"{}", {}),
    )


def test_jackson_json_is_plain_gzip_or_lz4(spark: SparkSession, check: Check) -> None:
    assert_outcomes(
        spark,
        check("{serializer-id: 1, kind: jackson-json}"),
        *sample.JACKSON_JSON,
        (gzip.compress(b"not json"), "not JSON"),
        (gzip.compress(b'{"delay":"late"}'), f"{MISMATCH}: delay is not INT"),
        (gzip.compress(b'"\xff"'), "not UTF-8"),
        (b'{"delay":"late"}', f"{MISMATCH}: delay is not INT"),
        (b"not json", "not JSON"),
        (b"", "not JSON"),
        (b"\x1f", "not JSON"),
    )


def test_jackson_cbor_is_plain_gzip_or_lz4(spark: SparkSession, check: Check) -> None:
    assert_outcomes(
        spark,
        check("{serializer-id: 1, kind: jackson-cbor}"),
        *sample.JACKSON_CBOR,
        (
            bytes.fromhex("a1 6564656c6179 646c617465"),
            "not a CBOR map whose fields have the declared types: delay is not INT",
        ),
    )


def test_string_and_bytes_go_into_one_field(spark: SparkSession, check: Check) -> None:
    checked = check(
        "{serializer-id: 1, kind: string}, "
        "{serializer-id: 2, kind: bytes}, "
        "{serializer-id: 3, kind: string, field: kind}",
        "kind STRING, raw BINARY",
    )
    assert outcomes(
        spark,
        checked,
        (1, "", "départ".encode()),
        (2, "", b"\x00\xff"),
        (3, "", b""),
        (1, "", b"\xff"),
        (2, "", None),
    ) == [{"kind": "départ"}, {"raw": b"\x00\xff"}, {"kind": ""}, "not UTF-8", "no payload"]


def test_avro(spark: SparkSession, check: Check) -> None:
    assert_outcomes(
        spark,
        check("{serializer-id: 1, kind: avro, schema: fared.avsc}", "kind STRING, delay INT"),
        *sample.AVROS,
    )


def test_a_record_of_nulls_is_not_taken_for_a_poisoned_one(
    spark: SparkSession, check: Check, tmp_path: Path
) -> None:
    schema = sample.AVRO_SCHEMA | {"fields": sample.AVRO_SCHEMA["fields"][:1]}
    (tmp_path / "nulls.avsc").write_text(json.dumps(schema))
    checked = check("{serializer-id: 1, kind: avro, schema: nulls.avsc}", "kind STRING")
    poisoned = (sample.zigzag(9), "not Avro of nulls.avsc")
    assert_outcomes(spark, checked, (sample.zigzag(0), {}), poisoned)


def test_avro_is_widened_to_the_declared_type(spark: SparkSession, check: Check) -> None:
    checked = check("{serializer-id: 1, kind: avro, schema: fared.avsc}", "delay BIGINT")
    assert_outcomes(spark, checked, (sample.AVRO, {"delay": 3}))


def test_protobuf(spark: SparkSession, check: Check) -> None:
    checked = check(
        "{serializer-id: 1, kind: protobuf, descriptors: acme.desc, message: acme.Fared}",
        "kind STRING, delay INT, raw BINARY",
    )
    assert_outcomes(spark, checked, *sample.PROTOBUFS)


def test_a_python_function_fails_for_its_poisoned_events_only(
    spark: SparkSession, check: Check
) -> None:
    checked = check("{serializer-id: 1, kind: python, function: decoders:decode}")
    assert_outcomes(spark, checked, *sample.PYTHON)
    assert_outcomes(spark, checked, *sample.PYTHON[:2])


def test_what_a_python_function_returns_has_to_have_the_declared_types(
    spark: SparkSession, check: Check
) -> None:
    # pandas turns a column of whole numbers with a gap into floats.
    frames = ((b"5", {"kind": "a", "delay": 5}), (b"0", {"kind": "a"}))
    assert_outcomes(
        spark, check("{serializer-id: 1, kind: python, function: decoders:frame}"), *frames
    )
    mismatch = "not a dict whose fields have the declared types: delay is not INT"
    assert_outcomes(
        spark, check("{serializer-id: 1, kind: python, function: decoders:odd}"), (b"3", mismatch)
    )


def test_mixed_serializers_and_what_no_rule_takes(spark: SparkSession, check: Check) -> None:
    checked = check(
        "{serializer-id: 31, manifest: com.acme.Fared, kind: jackson-json}, "
        "{serializer-id: 33, kind: jackson-cbor}, "
        "{serializer-id: 20, kind: string, field: kind}, "
        "{serializer-id: 4, kind: bytes}, "
        "{serializer-id: 1001, manifest: Fared, kind: avro, schema: fared.avsc}, "
        "{serializer-id: 1002, kind: protobuf, descriptors: acme.desc, message: acme.Fared}, "
        "{serializer-id: 1003, kind: python, function: decoders:decode}, "
        "{serializer-id: 25, kind: skip}"
    )
    vectors: list[tuple[Payload, Any]] = [
        ((31, "com.acme.Fared", gzip.compress(JSON)), FARED),
        (
            (31, "com.acme.Other", JSON),
            "no decoder for serializer id 31, manifest 'com.acme.Other'",
        ),
        ((33, "com.acme.Fared", sample.CBOR), FARED),
        ((20, "", b"text"), {"kind": "text"}),
        ((4, "", b"\x01"), {"raw": b"\x01"}),
        ((1001, "Fared", sample.AVRO), FARED),
        ((1001, "Fared2", sample.AVRO), "no decoder for serializer id 1001, manifest 'Fared2'"),
        ((1002, "", sample.PROTOBUF), FARED | {"raw": b""}),
        ((1003, "", b"a:1"), {"kind": "a", "fare": Decimal("0.01")}),
        ((25, "", b"whatever"), None),
        ((77, "x", b"{}"), "no decoder for serializer id 77, manifest 'x'"),
        ((77, "", None), "no decoder for serializer id 77, manifest ''"),
    ]
    payloads = [payload for payload, _ in vectors]
    assert outcomes(spark, checked, *payloads) == [expected for _, expected in vectors]


def test_a_skipped_event_is_read_but_neither_an_event_nor_quarantined(
    spark: SparkSession, check: Check
) -> None:
    frame = decoded(
        spark,
        check("{serializer-id: 1, kind: json}, skip"),
        (1, "", JSON),
        (2, "", b"x"),
        (3, "", None),
    )
    (counts,) = transform.counts_by_bucket(frame).collect()
    assert (counts.events_read, counts.quarantined) == (3, 0)
    assert [row.sequence_nr for row in transform.readable(frame).collect()] == [0]
    assert transform.unreadable(frame).collect() == []


def test_fail_stops_at_the_first_event_that_it_takes(spark: SparkSession, check: Check) -> None:
    checked = check("{serializer-id: 1, kind: json}, fail")
    assert outcomes(spark, checked, (1, "", JSON)) == [FARED]
    with pytest.raises(Py4JJavaError) as failed:
        decoded(spark, checked, (1, "", JSON), (77, "x", b"{}")).collect()
    assert root_cause(failed.value) == (
        "java.lang.RuntimeException: the decoder is fail for persistence id a|1, sequence nr 1,"
        " serializer id 77, manifest 'x'"
    )


def test_only_rules_that_need_it_put_python_into_the_plan(
    spark: SparkSession, check: Check
) -> None:
    def plan(decoder: str) -> str:
        frame = decoded(spark, check(decoder), (1, "", JSON))
        return str(frame._jdf.queryExecution().executedPlan().toString())

    assert "Eval" not in plan("json")
    assert "_rule" not in plan("json")
    in_spark = (
        "{serializer-id: 1, kind: json}, {serializer-id: 2, kind: string, field: kind}, "
        "{serializer-id: 3, kind: bytes}, {serializer-id: 4, kind: avro, schema: fared.avsc}, skip"
    )
    assert "Eval" not in plan(in_spark)
    in_python = (
        "{serializer-id: 1, kind: jackson-json}, {serializer-id: 2, kind: jackson-cbor}, "
        "{serializer-id: 3, kind: python, function: decoders:odd}"
    )
    assert plan(in_python).count("ArrowEval") == 1


# Each is read within seconds, and still takes far longer than a healthy payload.
_EXPONENT = "1E2000000"
_LONG_NUMBER = "a number whose exponent is beyond 999, or which has more than 1,000 digits"


@pytest.mark.parametrize(
    ("event", "healthy", "bombs"),
    [
        pytest.param(
            "balance DECIMAL(9,2), note STRING",
            [b'{"balance":0.0,"note":"1E2000000, 2e-99999, 9"}', b'{"balance":"1e3"}', b"{}"],
            [
                b'{"balance":1E2000000}',
                b'{"balance":-15e-2000000,"note":"x"}',
                b'{"balance": 1.5E+02000000 }',
                b'{"balance":"1E2000000"}',
                b'{"balance":"1\\u004520000\\u0030\\u0030"}',
                b'{"balance":"1E2,000,000"}',
                '{"balance":"1E\uff12\uff10\uff10\uff10\uff10\uff10\uff10"}'.encode(),
                b"{'balance':'1E2000000'}",
                b"{'note':'\"','balance':1E2000000}",
                b'{"balance":1E2000000,"balance":1}',
                b'{"balance":"1E2000000","balance":"1"}',
                b'{"b\\u0061lance":"1E2000000"}',
                b'{"balance":"1E2000000"',
                b'{"balance":"' + b"9" * 1001 + b'"}',
            ],
            id="a field",
        ),
        pytest.param(
            "a ARRAY<DECIMAL(9,2)>, s STRUCT<x: DECIMAL(9,2), n: STRING>,"
            " m MAP<STRING, ARRAY<DECIMAL(38,0)>>",
            [
                b'{"m":{"1E2000000":[1]},"s":{"n":"1E2000000"},"a":[1.5,"2"]}',
                b'{"m":{"k":null},"s":null,"a":[null],"note":"1E2000000"}',
                b'{"m":{"k":[null,1]},"s":{"x":null,"n":"1E2000000"}}',
            ],
            [
                b'{"a":[1,1E2000000]}',
                b'{"a":[1,"1E2000000"]}',
                b'{"s":{"x":"1E2000000"}}',
                b'{"s":{"x":"1E2000000","x":"1"}}',
                b'{"s":{"x":"1E2000000"},"s":{}}',
                b'{"s":{"x":"1E2000000","n":"\\ud800"}}',
                b'{"m":{"k":[0,"1E2000000"]}}',
                b'{"m":{"k":[0,1E2000000]}}',
            ],
            id="nested fields",
        ),
    ],
)
@pytest.mark.parametrize("decoder", [None, "json", "{serializer-id: 1, kind: jackson-json}"])
def test_numbers_that_would_be_written_out_are_unreadable(
    spark: SparkSession,
    tmp_path: Path,
    decoder: str | None,
    event: str,
    healthy: list[bytes],
    bombs: list[bytes],
) -> None:
    checked = sample.check(spark, tmp_path, decoder, event)
    payloads = [*healthy, *bombs, *healthy]
    actual = outcomes(spark, checked, *((1, "m", payload) for payload in payloads))
    read = actual[: len(healthy)]
    assert all(isinstance(fields, dict) for fields in read)
    assert actual == [*read, *[_LONG_NUMBER] * len(bombs), *read]
