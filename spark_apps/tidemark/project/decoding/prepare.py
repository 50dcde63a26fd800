"""Loads a definition's decoders and checks them against the event's fields."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tidemark.project.decoding import avro, jackson, protobuf
from tidemark.project.decoding.avro import Avro, BadSchema
from tidemark.project.decoding.json_text import Translator
from tidemark.project.decoding.protobuf import BadDescriptor, Protobuf, message_class
from tidemark.project.decoding.python_function import PythonFunction
from tidemark.project.definition.decoder import DecoderKind, DecoderRule
from tidemark.project.definition.on_error import SKIP, OnError
from tidemark.project.definition.user_modules import sources_in
from tidemark.spark import gateway
from tidemark.spark.python_workers import prepare_python_workers

_OPEN = (DecoderKind.JSON, DecoderKind.JACKSON_JSON, DecoderKind.JACKSON_CBOR, DecoderKind.PYTHON)
"""The kinds whose payloads may have any field."""
_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_PAYLOAD_TYPES = {DecoderKind.STRING: T.StringType(), DecoderKind.BYTES: T.BinaryType()}
_CAST = "org.apache.spark.sql.catalyst.expressions.Cast"


@dataclass(frozen=True)
class Decoders:
    """The rules in their order, and what each kind of rule needs, by the rule's index.

    Attributes:
        rules: rules; the first rule that selects an event decodes it.
        payload_fields: for `string` and `bytes`, the field that holds the complete payload.
        avro: for `avro`, the schema.
        translators: for the kinds that run in Python, the function.
    """

    rules: tuple[DecoderRule, ...]
    payload_fields: Mapping[int, str] = field(default_factory=dict)
    avro: Mapping[int, Avro] = field(default_factory=dict)
    translators: Mapping[int, Translator] = field(default_factory=dict)


def prepare(
    spark: SparkSession,
    rules: Sequence[DecoderRule],
    event: T.StructType,
    on_error: OnError = SKIP,
) -> Decoders:
    """Load the files and functions of rules, and check them against the event's fields.

    Python functions are retried as `on_error` says.

    Raises:
        DefinitionError: a rule does not fit the event, or its file or function cannot be used.
    """
    payload_fields: dict[int, str] = {}
    schemas: dict[int, Avro] = {}
    translators: dict[int, Translator] = {}
    given_fields: set[str] = set()
    for index, rule in enumerate(rules):
        if rule.kind in _PAYLOAD_TYPES:
            payload_fields[index] = _payload_field(rule, event)
            given_fields.add(payload_fields[index])
        elif rule.kind is DecoderKind.AVRO:
            schemas[index] = _avro(spark, rule, event)
            given_fields.update(schemas[index].fields.names)
        elif rule.kind is DecoderKind.PROTOBUF:
            translators[index], names = _protobuf(spark, rule, event)
            given_fields.update(names)
        elif rule.kind is DecoderKind.PYTHON:
            translators[index] = _python(rule, event, on_error)
        elif rule.kind is DecoderKind.JACKSON_JSON:
            translators[index] = jackson.jackson_json
        elif rule.kind is DecoderKind.JACKSON_CBOR:
            translators[index] = jackson.jackson_cbor
    _require_all_given(rules, event, given_fields)
    if translators:
        prepare_python_workers(spark)
    return Decoders(tuple(rules), payload_fields, schemas, translators)


def _require_all_given(
    rules: Sequence[DecoderRule], event: T.StructType, given_fields: set[str]
) -> None:
    """Reject a field that no decoder can ever fill: its name must be wrong in some file."""
    missing = [name for name in event.names if name not in given_fields]
    if missing and not any(rule.kind in _OPEN for rule in rules):
        raise rules[0].error(
            f"no decoder gives the event's field {', '.join(missing)}",
            f"the fields that they give are {', '.join(sorted(given_fields)) or 'none'}",
        )


def _payload_field(rule: DecoderRule, event: T.StructType) -> str:
    kind = _PAYLOAD_TYPES[rule.kind]
    fitting = [event_field.name for event_field in event.fields if event_field.dataType == kind]
    type_name = kind.simpleString().upper()
    if rule.arguments and rule.arguments[0] in fitting:
        return rule.arguments[0]
    if rule.arguments:
        what = f"the event has no {type_name} field {rule.arguments[0]}"
        raise rule.error(what, f"its {type_name} fields are {', '.join(fitting) or 'none'}")
    if not fitting:
        remedy = f"declare one, such as `payload {type_name}`"
        raise rule.error(f"the event has no {type_name} field", remedy)
    if len(fitting) > 1:
        what = f"the event has {len(fitting)} {type_name} fields: {', '.join(fitting)}"
        raise rule.error(what, f"name the one to fill: `field: {fitting[0]}`")
    return fitting[0]


def _avro(spark: SparkSession, rule: DecoderRule, event: T.StructType) -> Avro:
    path = rule.path
    assert path is not None  # noqa: S101 - the kind has a file
    try:
        schema = avro.load(spark, path.read_text("utf-8"))
    except (BadSchema, UnicodeDecodeError) as error:
        raise rule.error(f"{path.name} is no Avro schema: {error}", "correct it") from None
    types = {event_field.name: event_field.dataType for event_field in schema.fields.fields}
    _require_fitting(spark, rule, event, types)
    return schema


def _protobuf(
    spark: SparkSession, rule: DecoderRule, event: T.StructType
) -> tuple[Translator, Sequence[str]]:
    path = rule.path
    assert path is not None  # noqa: S101 - the kind has a file
    content = path.read_bytes()
    try:
        descriptor = message_class(content, rule.arguments[1]).DESCRIPTOR
    except BadDescriptor as error:
        raise rule.error(f"{path.name} cannot be used: {error.what}", error.do) from None
    types = protobuf.spark_types(descriptor)
    _require_fitting(spark, rule, event, types)
    return Protobuf(content, rule.arguments[1], frozenset(event.names)), list(types)


def _python(rule: DecoderRule, event: T.StructType, on_error: OnError) -> PythonFunction:
    module, name = rule.function
    integers = frozenset(
        event_field.name
        for event_field in event.fields
        if isinstance(event_field.dataType, _INTEGERS)
    )
    sources = sources_in(rule.modules_dir)
    function = PythonFunction(sources, module, name, integers, on_error)
    try:
        function.load()
    except Exception as error:
        what = f"{rule.arguments[0]} cannot be imported: {sources.describe(error)}"
        raise rule.error(what, f"correct {Path(sources.modules[module].file).name}") from None
    return function


def _require_fitting(
    spark: SparkSession,
    rule: DecoderRule,
    event: T.StructType,
    types: Mapping[str, T.DataType | None],
) -> None:
    """Reject a schema with none of the event's fields, or with a field whose type does not fit."""
    name = rule.arguments[0]
    shared = [event_field for event_field in event.fields if event_field.name in types]
    if not shared:
        remedy = f"it has {', '.join(types) or 'none'}"
        raise rule.error(f"{name} has none of the event's fields", remedy)
    for event_field in shared:
        schema_type = types[event_field.name]
        if schema_type is not None and not _fits(spark, schema_type, event_field.dataType):
            raise rule.error(
                f"{event_field.name} is {schema_type.simpleString()} in {name}"
                f" and {event_field.dataType.simpleString()} in event",
                "declare it in event as the schema has it, or wider",
            )


def _fits(spark: SparkSession, schema_type: T.DataType, declared: T.DataType) -> bool:
    """Return whether every value of `schema_type` is a value of the type `declared`."""
    session = gateway.session_of(spark)
    types = (
        session.parseDataType(json.dumps(data_type.jsonValue()))
        for data_type in (schema_type, declared)
    )
    return bool(gateway.named(spark, _CAST).canUpCast(*types))
