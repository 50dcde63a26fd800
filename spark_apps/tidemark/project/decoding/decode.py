"""Applies decoders to a frame: JSON, text, bytes and Avro in the JVM, the others in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import pandas_udf

from tidemark.project.decoding import avro
from tidemark.project.decoding.jackson import GZIP_MAGIC, LZ4_MAGIC
from tidemark.project.decoding.json_text import Translation, Translator
from tidemark.project.decoding.prepare import Decoders
from tidemark.project.definition.decoder import DecoderKind, DecoderRule
from tidemark.project.envelope import UNREADABLE_COLUMN
from tidemark.spark import json_values, time_formats
from tidemark.spark.bounded_json import UNBOUNDED, is_unbounded

PARSED = "parsed"
CAUSE = "cause"
SKIPPED = "skipped"
_RULE = "_rule"
_TRANSLATED = "_translated"
_UNBOUNDED = "_unbounded"
_OF_JSON = "_of_json"
_NO_RULE = -1
CHUNK_CHARACTERS = 64 * 2**20
"""Characters of JSON after which a Python worker returns a chunk of its translations."""
_IN_TEXT = (DecoderKind.JSON, DecoderKind.JACKSON_JSON)
_MISMATCH = {
    DecoderKind.JSON: "not a JSON object whose fields have the declared types",
    DecoderKind.JACKSON_JSON: "not a JSON object whose fields have the declared types",
    DecoderKind.JACKSON_CBOR: "not a CBOR map whose fields have the declared types",
    DecoderKind.PROTOBUF: "not a message whose fields have the declared types",
    DecoderKind.PYTHON: "not a dict whose fields have the declared types",
}
"""The kinds that Spark reads as JSON text, and the error for a text that Spark cannot read."""


def with_parsed(events: DataFrame, fields: T.StructType, decoders: Decoders | None) -> DataFrame:
    """Add the decoded payloads to events; without `decoders` all payloads are JSON.

    Columns in: event (binary), ser_id (int), ser_manifest (string) and any others.
    Columns out: those, and parsed (struct of `fields` and UNREADABLE_COLUMN), cause (string: why a
    payload is unreadable, or null) and skipped (boolean: a rule skips the event).
    """
    if decoders is None:
        text, read = F.decode("event", "UTF-8"), time_formats.as_read(fields)
        frame = events.withColumn(_UNBOUNDED, is_unbounded(text, read))
        bounded = F.when(~F.col(_UNBOUNDED), text)
        frame = json_values.with_values(frame, PARSED, bounded, read, UNREADABLE_COLUMN)
        frame = _with_times(frame, fields)
        return frame.withColumns({CAUSE: _json_cause(text, read), SKIPPED: F.lit(False)})
    return _Decoding(fields, decoders).applied_to(events)


class _Decoding:
    """The columns that a definition's decoders add."""

    def __init__(self, fields: T.StructType, decoders: Decoders) -> None:
        self._declared, self._decoders = fields, decoders
        self._fields = time_formats.as_read(fields)

    def applied_to(self, events: DataFrame) -> DataFrame:
        frame = events.withColumn(_RULE, _first_match(self._decoders.rules))
        if self._decoders.translators:
            translate = _translation(self._decoders.translators)
            frame = frame.withColumn(_TRANSLATED, translate(self._for_python(), F.col(_RULE)))
        # One column per record: inside a struct Spark would decode the record once per field.
        records = {
            _record(index): F.when(_takes(index), schema.read(F.col("event")))
            for index, schema in self._decoders.avro.items()
        }
        frame = frame.withColumns(records) if records else frame
        is_unbounded_text = F.when(self._is(*_MISMATCH), is_unbounded(self._text(), self._fields))
        frame = frame.withColumn(_UNBOUNDED, F.coalesce(is_unbounded_text, F.lit(False)))
        text = F.when(self._is(*_MISMATCH) & ~F.col(_UNBOUNDED), self._text())
        frame = json_values.with_values(frame, _OF_JSON, text, self._fields, UNREADABLE_COLUMN)
        frame = _with_times(frame.withColumn(PARSED, self._parsed()), self._declared)
        return frame.withColumns({CAUSE: self._cause(), SKIPPED: self._is(DecoderKind.SKIP)})

    def _is(self, *kinds: DecoderKind) -> Column:
        rules = self._decoders.rules
        return _takes(*(index for index, rule in enumerate(rules) if rule.kind in kinds))

    def _for_python(self) -> Column:
        """Return the payloads that the JVM cannot decode; all other payloads are null."""
        is_foreign = self._is(DecoderKind.JACKSON_CBOR, DecoderKind.PROTOBUF, DecoderKind.PYTHON)
        is_packed = self._is(DecoderKind.JACKSON_JSON) & _is_compressed()
        return F.when(is_foreign | is_packed, F.col("event"))

    def _text(self) -> Column:
        """Return the JSON text of the kinds in `_MISMATCH`."""
        decoded_text = F.when(self._is(*_IN_TEXT), F.decode("event", "UTF-8"))
        if not self._decoders.translators:
            return decoded_text
        return F.coalesce(F.col(f"{_TRANSLATED}.json"), decoded_text)

    def _parsed(self) -> Column:
        parsed = F.when(self._is(*_MISMATCH), F.col(_OF_JSON))
        for index, schema in self._decoders.avro.items():
            record = F.col(_record(index))
            values = {name: record.getField(name) for name in schema.fields.names}
            is_read = _takes(index) & avro.is_read(record)
            parsed = parsed.when(is_read, self._struct(values))
        for index, name in self._decoders.payload_fields.items():
            is_text = self._decoders.rules[index].kind is DecoderKind.STRING
            value = F.decode("event", "UTF-8") if is_text else F.col("event")
            parsed = parsed.when(_takes(index), self._struct({name: value}))
        return parsed

    def _struct(self, values: Mapping[str, Column]) -> Column:
        """Return the same struct as `from_json`; a field without a value is null."""
        columns = [
            values.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
            for field in self._fields.fields
        ]
        return F.struct(*columns, F.lit(None).cast("string").alias(UNREADABLE_COLUMN))

    def _cause(self) -> Column:
        """Return why a payload is unreadable, or null; events of a `fail` rule fail the job."""
        stop = F.raise_error(F.concat(F.lit("the decoder is fail for "), _whose(), _which()))
        cause = (
            F.when(self._is(DecoderKind.SKIP), F.lit(None).cast("string"))
            .when(self._is(DecoderKind.FAIL), stop.cast("string"))
            .when(F.col(_RULE) == _NO_RULE, F.concat(F.lit("no decoder for "), _which()))
            .when(F.col("event").isNull(), F.lit("no payload"))
        )
        is_text = self._is(DecoderKind.JSON, DecoderKind.STRING)
        if self._decoders.translators:
            failed = F.col(f"{_TRANSLATED}.cause")
            cause = cause.when(failed.isNotNull(), failed)
            is_text = is_text | (self._is(DecoderKind.JACKSON_JSON) & ~_is_compressed())
        cause = cause.when(is_text & _is_not_utf8(), F.lit("not UTF-8"))
        cause = cause.when(F.col(_UNBOUNDED), F.lit(UNBOUNDED))
        cause = cause.when(
            self._is(*_IN_TEXT) & _is_unreadable() & ~_is_json(self._text()), F.lit("not JSON")
        )
        for kind, mismatch in _MISMATCH.items():
            what = _mismatch(mismatch, self._text(), self._fields)
            cause = cause.when(self._is(kind) & _is_unreadable(), what)
        for index in self._decoders.avro:
            schema = self._decoders.rules[index].arguments[0]
            is_wrong = _takes(index) & _is_unreadable()
            cause = cause.when(is_wrong, F.lit(f"not Avro of {schema}"))
        return cause


def _with_times(frame: DataFrame, fields: T.StructType) -> DataFrame:
    if time_formats.as_read(fields) == fields:
        return frame
    parsed = time_formats.converted(F.col(PARSED), fields, UNREADABLE_COLUMN)
    # `explode` keeps Spark from repeating the struct's expression for each of its fields.
    return frame.withColumn(PARSED, F.explode(F.array(PARSED))).withColumn(PARSED, parsed)


def _first_match(rules: tuple[DecoderRule, ...]) -> Column:
    """Return the index of the first rule that selects the event."""
    number = F.lit(_NO_RULE)
    for index, rule in reversed(list(enumerate(rules))):
        takes = F.lit(True)
        if rule.serializer_id is not None:
            takes = F.col("ser_id") == rule.serializer_id
        if rule.manifest is not None:
            takes = takes & (F.col("ser_manifest") == rule.manifest)
        number = F.when(takes, F.lit(index)).otherwise(number)
    return number


def _translation(translators: Mapping[int, Translator]) -> Callable[[Column, Column], Column]:
    def translate(batches: Iterator[tuple[pd.Series, pd.Series]]) -> Iterator[pd.DataFrame]:
        for payloads, rules in batches:
            yield from _frames(_translations(translators, payloads, rules))

    # The stubs require the kind of the function, which pyspark derives from its type hints.
    udf: Callable[[Column, Column], Column] = pandas_udf(  # type: ignore[call-overload]
        translate, "json string, cause string"
    )
    return udf


def _translations(
    translators: Mapping[int, Translator], payloads: pd.Series, rules: pd.Series
) -> Iterator[Translation]:
    """Yield the translation of each payload; (None, None) if Python has nothing to translate."""
    has_payload = payloads.notna()
    by_rule = {
        number: translator(payloads[(rules == number) & has_payload].tolist())
        for number, translator in translators.items()
    }
    for number, is_payload in zip(rules, has_payload, strict=True):
        yield next(by_rule[number]) if is_payload else (None, None)


def _frames(translations: Iterator[Translation]) -> Iterator[pd.DataFrame]:
    """Yield the translations in frames of bounded size, so that long texts fit into memory."""
    rows: list[Translation] = []
    characters = 0
    for translation in translations:
        rows.append(translation)
        characters += len(translation[0] or "")
        if characters >= CHUNK_CHARACTERS:
            yield _frame(rows)
            rows, characters = [], 0
    yield _frame(rows)


def _frame(rows: list[Translation]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["json", "cause"], dtype="object")


def _takes(*rules: int) -> Column:
    return F.col(_RULE).isin(*rules) if rules else F.lit(False)


def _record(rule: int) -> str:
    return f"_record_{rule}"


def _mismatch(what: str, text: Column, fields: T.StructType) -> Column:
    """Return the error `what` about a JSON text, with the fields that do not have their types."""
    misfits = []
    unfit = F.coalesce(f"{PARSED}.{UNREADABLE_COLUMN}", F.lit(""))
    for field in fields.fields:
        has_value = F.get_json_object(text, f"$['{field.name}']").isNotNull()
        is_refused = has_value & json_values.is_refused(text, field)
        misfit = json_values.misfit(field)
        misfits.append(F.when(is_refused & ~unfit.contains(misfit), F.lit(misfit)))
    field_list = F.concat_ws(", ", *misfits, F.when(unfit != "", unfit))
    return F.concat(
        F.lit(what), F.when(field_list != "", F.concat(F.lit(": "), field_list)).otherwise("")
    )


def _json_cause(text: Column, fields: T.StructType) -> Column:
    return (
        F.when(F.col("event").isNull(), F.lit("no payload"))
        .when(_is_not_utf8(), F.lit("not UTF-8"))
        .when(F.col(_UNBOUNDED), F.lit(UNBOUNDED))
        .when(_is_unreadable() & ~_is_json(text), F.lit("not JSON"))
        .when(_is_unreadable(), _mismatch(_MISMATCH[DecoderKind.JSON], text, fields))
    )


def _is_unreadable() -> Column:
    return F.col(PARSED).isNull() | F.col(f"{PARSED}.{UNREADABLE_COLUMN}").isNotNull()


def _is_json(text: Column) -> Column:
    return F.get_json_object(text, "$").isNotNull()


def _is_not_utf8() -> Column:
    # Spark silently decodes bytes that are not UTF-8 as U+FFFD.
    return F.encode(F.decode("event", "UTF-8"), "UTF-8") != F.col("event")


def _is_compressed() -> Column:
    event = F.col("event")
    has_magic = [
        F.substring(event, 1, len(magic)) == F.lit(magic) for magic in (GZIP_MAGIC, LZ4_MAGIC)
    ]
    return has_magic[0] | has_magic[1]


def _which() -> Column:
    return F.format_string("serializer id %d, manifest '%s'", "ser_id", "ser_manifest")


def _whose() -> Column:
    return F.format_string("persistence id %s, sequence nr %d, ", "persistence_id", "sequence_nr")
