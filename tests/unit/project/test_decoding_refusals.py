"""Error messages about decoders that do not fit their event, or whose files cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from py4j.java_gateway import JavaPackage
from pyspark.sql import SparkSession

from tests.unit.project import decoder_payloads as sample
from tidemark.errors import DefinitionError, InvalidInput
from tidemark.project.decoding import avro


@pytest.mark.parametrize(
    ("decoder", "event", "what", "do"),
    [
        (
            "string",
            "a STRING, b STRING",
            "the event has 2 STRING fields: a, b",
            "name the one to fill: `field: a`",
        ),
        (
            "string",
            "a INT",
            "the event has no STRING field",
            "declare one, such as `payload STRING`",
        ),
        (
            "{kind: bytes, field: a}",
            "a STRING, b BINARY",
            "the event has no BINARY field a",
            "its BINARY fields are b",
        ),
        (
            "string",
            "a STRING, b INT",
            "no decoder gives the event's field b",
            "the fields that they give are a",
        ),
        (
            "{serializer-id: 1, kind: avro, schema: fared.avsc}",
            "kind STRING, fare INT",
            "no decoder gives the event's field fare",
            "the fields that they give are delay, kind, seen",
        ),
        (
            "{serializer-id: 1, kind: avro, schema: fared.avsc}, json",
            "fare INT",
            "fared.avsc has none of the event's fields",
            "it has kind, delay, seen",
        ),
        (
            "{serializer-id: 1, kind: avro, schema: fared.avsc}",
            "delay BOOLEAN",
            "delay is int in fared.avsc and boolean in event",
            "declare it in event as the schema has it, or wider",
        ),
        (
            "{serializer-id: 1, kind: avro, schema: text.avsc}",
            "a INT",
            "text.avsc is no Avro schema: org.apache.avro.SchemaParseException:"
            ' "strin" is not a defined name. The type of the "a" field must be a defined name or'
            ' a {"type": ...} expression.',
            "correct it",
        ),
        (
            "{serializer-id: 1, kind: avro, schema: long.avsc}",
            "a INT",
            "long.avsc is no Avro schema: it is of type long, not record",
            "correct it",
        ),
        (
            "{serializer-id: 1, kind: avro, schema: nulls.avsc}",
            "a ARRAY<INT>",
            "nulls.avsc is no Avro schema: the items of an array have no content:"
            " few bytes can claim any number",
            "correct it",
        ),
        (
            "{serializer-id: 1, kind: avro, schema: hollow.avsc}",
            "a ARRAY<INT>",
            "hollow.avsc is no Avro schema: the items of an array have no content:"
            " few bytes can claim any number",
            "correct it",
        ),
        (
            "{serializer-id: 1, kind: protobuf, descriptors: acme.desc, message: acme.Fired}",
            "kind STRING",
            "acme.desc cannot be used: it has no message acme.Fired",
            "it has acme.Fared",
        ),
        (
            "{serializer-id: 1, kind: protobuf, descriptors: long.avsc, message: acme.Fared}",
            "kind STRING",
            "long.avsc cannot be used: it is no whole descriptor set:"
            " Error parsing message with type 'google.protobuf.FileDescriptorSet':"
            " Wire format was corrupt",
            "make it with `protoc --include_imports --descriptor_set_out=FILE`",
        ),
        (
            "{serializer-id: 1, kind: protobuf, descriptors: acme.desc, message: acme.Fared}",
            "seconds INT",
            "seconds is bigint in acme.desc and int in event",
            "declare it in event as the schema has it, or wider",
        ),
        (
            "{serializer-id: 1, kind: python, function: decoders:decod}",
            "kind STRING",
            "decoders:decod cannot be imported:"
            " AttributeError: module 'decoders' has no attribute 'decod'",
            "correct decoders.py",
        ),
        (
            "{serializer-id: 1, kind: python, function: decoders:CENTS}",
            "kind STRING",
            "decoders:CENTS cannot be imported: AttributeError: CENTS is not a function",
            "correct decoders.py",
        ),
        (
            "{serializer-id: 1, kind: python, function: broken:decode}",
            "kind STRING",
            "broken:decode cannot be imported: ZeroDivisionError: division by zero (broken.py:2)",
            "correct broken.py",
        ),
        (
            "{serializer-id: 1, kind: python, function: syntax:decode}",
            "kind STRING",
            "syntax:decode cannot be imported:"
            " SyntaxError: '(' was never closed (syntax.py, line 1) (syntax.py:1)",
            "correct syntax.py",
        ),
        (
            "{serializer-id: 1, kind: python, function: json:loads}",
            "kind STRING",
            "json:loads cannot be imported:"
            " ImportError: another module that is installed is named json",
            "correct json.py",
        ),
    ],
)
def test_what_does_not_fit_the_event_is_refused(
    spark: SparkSession, tmp_path: Path, decoder: str, event: str, what: str, do: str
) -> None:
    record = {"type": "record", "name": "A", "fields": [{"name": "a", "type": "strin"}]}
    hollow = {"type": "record", "name": "B", "fields": [{"name": "b", "type": "null"}]}
    for name, items in (("nulls", "null"), ("hollow", hollow)):
        listed = {"name": "a", "type": {"type": "array", "items": items}}
        (tmp_path / f"{name}.avsc").write_text(json.dumps(record | {"fields": [listed]}))
    (tmp_path / "text.avsc").write_text(json.dumps(record))
    (tmp_path / "long.avsc").write_text('"long"')
    (tmp_path / "broken.py").write_text("# The next line fails.\n1 / 0\n")
    (tmp_path / "syntax.py").write_text("decode = (\n")
    (tmp_path / "json.py").write_text("def loads(payloads): ...\n")
    with pytest.raises(DefinitionError) as refused:
        sample.check(spark, tmp_path, decoder, event)
    assert str(refused.value) == f"{what} ({tmp_path / 'fares.sql'}:8:12); {do}"


def test_a_session_without_spark_avro_is_refused() -> None:
    spark = MagicMock(version="3.5.7")
    # py4j answers with a package for a class that does not exist.
    spark._jvm.org.apache.spark.sql.avro.SchemaConverters = JavaPackage("org", None)
    with pytest.raises(InvalidInput) as refused:
        avro.load(spark, '"long"')
    assert str(refused.value) == (
        "the jar of spark-avro is missing (TIDEMARK_SPARK_JARS);"
        " run `make jars`, or add org.apache.spark:spark-avro_2.12:3.5.7"
    )
