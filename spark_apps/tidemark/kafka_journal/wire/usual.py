"""What kafka-journal's current writer usually makes, decoded by Spark: no payload leaves the JVM.

Usual are appends whose events have a binary payload, a text or none, without metadata, and deletes
and purges. Of every other record these functions return null, and `record.decode` reads it. The
layout of the bytes is in `payload.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.kafka_journal.wire.action import HEADER, ActionType
from tidemark.kafka_journal.wire.shapes import EVENT

_TEXT = r'"([^"\\\x00-\x1f]+)"'
_NR = r"([1-9]\d{0,17})"
_NO_METADATA = '{"header":{},"payload":{}}'
_STATE = f"struct<at:bigint,events:array<{EVENT}>>"
_SMALLEST_EVENT = 21
"""Bytes of an event without tags and payload, with those of its size."""


@dataclass(frozen=True)
class _Form:
    """How a header is written; `origin` and `version` are numbers of groups."""

    action: ActionType
    pattern: str
    origin: int
    version: int


_APPEND = _Form(
    ActionType.APPEND,
    rf'^\{{"append":\{{"range":\{{"from":{_NR},"to":{_NR}\}},(?:"origin":{_TEXT},)?'
    rf'(?:"version":{_TEXT},)?"payloadType":"binary","metadata":\{{\}}\}}\}}\z',
    origin=3,
    version=4,
)
_DELETE = _Form(
    ActionType.DELETE,
    rf'^\{{"delete":\{{"to":{_NR}(?:,"origin":{_TEXT})?(?:,"version":{_TEXT})?\}}\}}\z',
    origin=2,
    version=3,
)
_PURGE = _Form(
    ActionType.PURGE,
    rf'^\{{"purge":\{{(?:"origin":{_TEXT}(?:,"version":{_TEXT})?)?\}}\}}\z',
    origin=1,
    version=2,
)


def content(shape: dict[str, str]) -> Column:
    """Return what a usual record does, a struct of `shape`; null of every other record."""
    key, headers = F.col("key"), F.col("headers")
    header = F.decode(headers[0]["value"], "UTF-8")
    is_whole = (
        F.col("timestamp").isNotNull()
        & (headers[0]["key"] == HEADER)
        & _is_utf8(headers[0]["value"])
        & _is_utf8(key)
    )

    def told(form: _Form, **values: Column) -> Column:
        values = {
            **values,
            "id": F.decode(key, "UTF-8"),
            "action": F.lit(form.action.value),
            "origin": _text(header, form, form.origin),
            "version": _text(header, form, form.version),
        }
        return F.struct(
            *(values.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in shape.items())
        )

    others = F.slice(headers, 2, F.size(headers))
    names = F.transform(others, lambda one: one["key"])
    is_plain = F.forall(others, lambda one: (one["key"] != HEADER) & _is_utf8(one["value"]))
    texts = F.transform(others, lambda one: F.decode(one["value"], "UTF-8"))
    first, to = (F.regexp_extract(header, _APPEND.pattern, end).cast("bigint") for end in (1, 2))
    events = _events(F.col("value"))
    append = told(
        _APPEND,
        metadata=F.lit(_NO_METADATA),
        headers=F.map_from_arrays(names, texts),
        events=events,
    )
    is_append = (
        header.rlike(_APPEND.pattern)
        & (first <= to)
        & is_plain
        & (F.size(F.array_distinct(names)) == F.size(names))
        & events.isNotNull()
    )
    delete = told(_DELETE, to=F.regexp_extract(header, _DELETE.pattern, 1))
    return F.when(
        is_whole,
        F.when(is_append, append)
        .when(header.rlike(_DELETE.pattern), delete)
        .when(header.rlike(_PURGE.pattern), told(_PURGE)),
    )


def _text(header: Column, form: _Form, group: int) -> Column:
    found = F.regexp_extract(header, form.pattern, group)
    return F.when(found != "", found)


def _events(value: Column) -> Column:
    """Return the events of a value of version 1 with the metadata `{}`; null of any other."""
    count = _integer(value, F.lit(1), 4)
    is_countable = (F.substring(value, 1, 1) == F.lit(b"\x01")) & (
        count.between(1, F.length(value) / _SMALLEST_EVENT)
    )
    start = F.struct(
        F.lit(5).cast("bigint").alias("at"), F.array().cast(f"array<{EVENT}>").alias("events")
    )
    read = F.aggregate(
        F.sequence(F.lit(1), F.when(is_countable, count)),
        start,
        lambda state, _: _next_event(value, state),
    )
    rest = _bytes(value, read["at"], F.lit(2))
    is_end = (read["at"] + 2 == F.length(value)) & (rest == F.lit(b"{}"))
    return F.when(is_countable & is_end, read["events"])


def _next_event(value: Column, state: Column) -> Column:
    """Return the state behind the next event; null where it cannot be read here."""
    size = _integer(value, state["at"], 4)
    at = state["at"] + 4
    end = at + size
    tags_size = _integer(value, at + 8, 4)
    tags_end = at + 12 + tags_size
    kind = _integer(value, tags_end, 1)
    payload_size = _integer(value, tags_end + 1, 4)
    payload = _bytes(value, tags_end + 5, payload_size)
    tags = _tags(value, at + 12, tags_size)
    seq_nr = _integer(value, at, 8).cast("bigint")
    is_read = (
        (seq_nr >= 1)
        & tags.isNotNull()
        & (tags_end + 5 + payload_size == end)
        & (end <= F.length(value))
        & ((kind < 2) | ((kind == 3) & _is_utf8(payload)))
    )
    event = F.struct(
        seq_nr.alias("seq_nr"),
        tags.alias("tags"),
        F.when(kind == 1, "binary").when(kind == 3, "text").alias("payload_type"),
        F.when(kind == 3, F.decode(payload, "UTF-8")).alias("payload_txt"),
        F.when(kind == 1, payload).alias("payload_bin"),
    )
    state_behind = F.struct(
        end.alias("at"), F.concat(state["events"], F.array(event.cast(EVENT))).alias("events")
    )
    return F.when(is_read, state_behind.cast(_STATE))


def _tags(value: Column, start: Column, size: Column) -> Column:
    """Return the distinct tags in `size` bytes from `start`; null where they cannot be read."""
    begin = F.struct(start.alias("at"), F.array().cast("array<string>").alias("tags"))
    end = start + size
    # Each tag has at least the four bytes of its size.
    is_within = size.between(1, F.length(value))
    places = F.when(is_within, F.sequence(F.lit(1), (size / 4).cast("int")))

    def behind(state: Column, _: Column) -> Column:
        length = _integer(value, state["at"], 4)
        tag = _bytes(value, state["at"] + 4, length)
        next_at = state["at"] + 4 + length
        taken = F.struct(
            next_at.alias("at"),
            F.concat(state["tags"], F.array(F.decode(tag, "UTF-8"))).alias("tags"),
        ).cast("struct<at:bigint,tags:array<string>>")
        is_read = (next_at <= end) & _is_utf8(tag)
        return F.when(state["at"] >= end, state).when(is_read, taken)

    read = F.aggregate(places, begin, behind)
    tags = F.when(read["at"] == end, F.array_distinct(read["tags"]))
    return F.when(size == 0, F.array().cast("array<string>")).otherwise(tags)


def _integer(value: Column, at: Column, size: int) -> Column:
    """Return `size` big-endian bytes from `at` (from 0) as an unsigned number."""
    return F.conv(F.hex(_bytes(value, at, F.lit(size))), 16, 10).cast("bigint")


def _bytes(value: Column, at: Column, size: Column) -> Column:
    return value.substr(at.cast("int") + 1, size.cast("int"))


def _is_utf8(value: Column) -> Column:
    """Tell whether bytes are UTF-8: what is not comes back as other bytes."""
    return F.encode(F.decode(value, "UTF-8"), "UTF-8") == value
