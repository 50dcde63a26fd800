"""Decodes the usual records of a journal topic in Spark: their payloads do not leave the JVM.

Usual are appends of one event whose payload is binary, a text or none, with at most two tags,
without metadata and headers, and all other actions. Only plain functions are used, which Spark
compiles: loops over events or tags in Spark's functions take longer than Python does. The layout of
the bytes is in `payload.py`; `record.decode` reads all other records.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.journals.kafka.wire.action import HEADER, ActionType
from tidemark.journals.kafka.wire.shapes import EVENT

_TEXT = r'"([^"\\\x00-\x1f]+)"'
_NR = r"([1-9]\d{0,17})"
_WRITER = rf'(?:,"origin":{_TEXT})?(?:,"version":{_TEXT})?'
_FIRST_WRITER = rf'(?:"origin":{_TEXT}(?:,"version":{_TEXT})?)?'
_ACTIONS = (
    rf'(append)":\{{"range":\{{"from":{_NR},"to":{_NR}\}}{_WRITER}'
    r',"payloadType":"binary","metadata":\{\}',
    rf'(delete)":\{{"to":{_NR}{_WRITER}',
    rf'(mark)":\{{"id":{_TEXT}{_WRITER}',
    rf'(purge)":\{{{_FIRST_WRITER}',
)
_HEADER = rf'^\{{"(?:{"|".join(_ACTIONS)})\}}\}}\z'
# A header cannot have this character, so that one pass over it finds all of its parts.
_BETWEEN = "\x01"
_PARTS = _BETWEEN.join(("$1$6$10$14", "$2", "$3$7", "$4$8$12$15", "$5$9$13$16"))
_NO_METADATA = '{"header":{},"payload":{}}'

_VERSION_AND_COUNT = b"\x01\x00\x00\x00\x01"
_TAGS_AT = 21
"""Where the tags begin, from 0: after version, count, size, seq nr and the size of all tags."""


def with_usual(records: DataFrame, shape: dict[str, str]) -> DataFrame:
    """Return records with `usual`, a struct of `shape`; it is null in all other records."""
    action = F.col("action")
    is_append = action == ActionType.APPEND.value
    # Step by step, since in one expression each part would be computed again wherever it is used.
    steps = _with_event(_with_sizes(_with_action(records)))
    content = {
        "id": F.decode("key", "UTF-8"),
        "action": action,
        "to": F.when(action == ActionType.DELETE.value, F.col("to")),
        "origin": F.col("origin"),
        "version": F.col("version"),
        "metadata": F.when(is_append, _NO_METADATA),
        "headers": F.when(is_append, F.create_map().cast("map<string,string>")),
        "events": F.when(is_append, F.array("event")),
    }
    usual = F.struct(
        *(content.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in shape.items())
    )
    is_usual = F.when(is_append, F.col("event").isNotNull()).otherwise(action.isNotNull())
    return steps.select(*records.columns, F.when(is_usual, usual).alias("usual"))


def _with_action(records: DataFrame) -> DataFrame:
    """Add the parts of the header; `action` is null if the record is not usual."""
    first = F.col("headers")[0]
    is_complete = (
        F.col("timestamp").isNotNull()
        & (F.size("headers") > 0)
        & (first["key"] == HEADER)
        & _is_utf8(first["value"])
        & _is_utf8(F.col("key"))
    )
    header = F.when(is_complete, F.decode(first["value"], "UTF-8"))
    parts = records.withColumn(
        "parts", F.split(F.regexp_replace(header, _HEADER, _PARTS), _BETWEEN)
    )
    action, first_nr, to, origin, version = (
        F.when(part != "", part) for part in (F.get("parts", F.lit(number)) for number in range(5))
    )
    return parts.withColumns(
        {
            "action": F.when(F.size("parts") > 1, action),
            "first": first_nr.cast("bigint"),
            "to": to.cast("bigint"),
            "origin": origin,
            "version": version,
        }
    )


def _with_sizes(records: DataFrame) -> DataFrame:
    """Add the sizes of the parts of an event's bytes, and the parts that are small."""
    value = F.col("value")
    has_one_event = (
        (F.col("action") == ActionType.APPEND.value)
        & (F.col("first") == F.col("to"))
        & (F.size("headers") == 1)
        & (_bytes(value, F.lit(0), 5) == F.lit(_VERSION_AND_COUNT))
    )
    tags_size, tag_size = F.col("tags_size"), F.col("tag_size")
    return (
        records.withColumn("tags_size", F.when(has_one_event, _integer(value, 17)))
        .withColumns(
            {
                "size": F.octet_length(value),
                "payload_size": F.octet_length(value) - (_TAGS_AT + 7) - tags_size,
                "tag_size": F.when(tags_size > 0, _integer(value, _TAGS_AT)),
                "kind": _bytes(value, _TAGS_AT + tags_size, 1),
            }
        )
        .withColumns(
            {
                "tag": _bytes(value, F.lit(_TAGS_AT + 4), tag_size),
                "second_size": tags_size - 8 - tag_size,
                "payload": _bytes(value, _TAGS_AT + 5 + tags_size, F.col("payload_size")),
            }
        )
        .withColumn("second_tag", _bytes(value, _TAGS_AT + 8 + tag_size, F.col("second_size")))
    )


def _with_event(records: DataFrame) -> DataFrame:
    """Add the only event of a value of version 1 with the metadata `{}`; null for any other."""
    value, size = F.col("value"), F.col("size")
    payload, kind = F.col("payload"), F.col("kind")
    is_read = (
        (F.col("payload_size") >= 0)
        & (_bytes(value, F.lit(5), 4) == _big_endian(size - 11, 4))
        & (_bytes(value, F.lit(9), 8) == _big_endian(F.col("first"), 8))
        & (
            _bytes(value, _TAGS_AT + 1 + F.col("tags_size"), 4)
            == _big_endian(F.col("payload_size"), 4)
        )
        & (_bytes(value, size - 2, 2) == F.lit(b"{}"))
    )
    is_binary, is_text = kind == F.lit(b"\x01"), kind == F.lit(b"\x03")
    payload_type = (
        F.when(kind == F.lit(b"\x00"), "none")
        .when(is_binary, "binary")
        .when(is_text & _is_utf8(payload), "text")
    )
    event = F.struct(
        F.col("first").alias("seq_nr"),
        F.col("tags"),
        F.when(F.col("kind_name") != "none", F.col("kind_name")).alias("payload_type"),
        F.when(is_text, F.decode(payload, "UTF-8")).alias("payload_txt"),
        F.when(is_binary, payload).alias("payload_bin"),
    )
    is_complete = F.col("is_read") & F.col("tags").isNotNull() & F.col("kind_name").isNotNull()
    return records.withColumns(
        {"is_read": is_read, "tags": _tags(), "kind_name": payload_type}
    ).withColumn("event", F.when(is_complete, event.cast(EVENT)))


def _tags() -> Column:
    """Return none, one or two tags; null if there are more, or for bytes that are not UTF-8."""
    size, first, second = F.col("tags_size"), F.col("tag"), F.col("second_tag")
    second_size = F.col("second_size")
    written_size = _bytes(F.col("value"), _TAGS_AT + 4 + F.col("tag_size"), 4)
    has_two = (
        (second_size >= 0)
        & (written_size == _big_endian(second_size, 4))
        & _is_utf8(first)
        & _is_utf8(second)
    )
    both = F.array_distinct(F.array(F.decode(first, "UTF-8"), F.decode(second, "UTF-8")))
    return (
        F.when(size == 0, F.array().cast("array<string>"))
        .when((size == F.col("tag_size") + 4) & _is_utf8(first), F.array(F.decode(first, "UTF-8")))
        .when(has_two, both)
    )


def _integer(value: Column, at: int) -> Column:
    """Return the four big-endian bytes from `at` as an unsigned number."""
    return F.conv(F.hex(_bytes(value, F.lit(at), 4)), 16, 10).cast("bigint")


def _big_endian(number: Column, size: int) -> Column:
    return F.unhex(F.lpad(F.hex(number.cast("bigint")), 2 * size, "0"))


def _bytes(value: Column, at: Column, size: int | Column) -> Column:
    """Return `size` bytes from `at`, which counts from 0."""
    length = F.lit(size) if isinstance(size, int) else size.cast("int")
    return value.substr(at.cast("int") + 1, length)


def _is_utf8(value: Column) -> Column:
    """Return whether bytes are UTF-8: other bytes are changed by decoding and encoding."""
    return F.encode(F.decode(value, "UTF-8"), "UTF-8") == value
