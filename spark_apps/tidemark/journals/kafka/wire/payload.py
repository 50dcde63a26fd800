"""The value of an append: its events and their metadata, as JSON or in kafka-journal's binary form.

Binary, all integers big-endian::

    u8 version
    i32 count, then for each event: i32 size, event
    version 1 only: the rest is JSON, the payload's metadata

    event: i64 seq_nr
           i32 size of all tags, then for each tag: i32 size, text
           u8 payload type: 0 none, 1 binary, 2 json, 3 text
           i32 size of the payload, payload

Version 1 with unreadable metadata, and every other version, are read as version 0: without
metadata, ignoring everything after the events.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tidemark.journals.kafka.wire import duration, json_text
from tidemark.journals.kafka.wire.action import PayloadType
from tidemark.journals.kafka.wire.duration import Duration
from tidemark.journals.kafka.wire.fields import MAX_SEQ_NR, Malformed, integer, utf8
from tidemark.journals.kafka.wire.json_text import Json

_WITH_METADATA = 1


@dataclass(frozen=True)
class JournalEvent:
    """An event of an append.

    Attributes:
        seq_nr: of its journal.
        tags: without duplicates.
        payload_type: `binary`, `json` or `text`; None without a payload.
        text: the payload of a `json` or `text` event, as it is stored.
        binary: the payload of a `binary` event.
    """

    seq_nr: int
    tags: frozenset[str]
    payload_type: str | None = None
    text: str | None = None
    binary: bytes | None = None


@dataclass(frozen=True)
class Payload:
    """The content of an append.

    Attributes:
        events: at least one.
        expire_after: when the journal expires unless something is appended to it.
        data: the user's metadata; None without any.
    """

    events: tuple[JournalEvent, ...]
    expire_after: Duration | None = None
    data: Json = None


def parse(value: bytes, payload_type: PayloadType) -> Payload:
    """Parse the value of an append.

    Raises:
        Malformed: the value is unreadable; the message says where.
    """
    if payload_type is PayloadType.JSON:
        return _from_json(value)
    return _from_binary(value)


def _from_json(value: bytes) -> Payload:
    fields = _object(_json(value, "the value"), "the value")
    events = fields.get("events")
    if not isinstance(events, list) or not events:
        raise Malformed("the value has no events")
    parsed = tuple(_json_event(event, f"events[{index}]") for index, event in enumerate(events))
    return Payload(parsed, *_metadata(fields.get("metadata")))


def _json_event(value: Json, where: str) -> JournalEvent:
    fields = _object(value, where)
    seq_nr = integer(fields, "seqNr", where)
    tags = fields.get("tags")
    if not isinstance(tags, list):
        raise Malformed(f"{where} has no tags")
    texts = [tag for tag in tags if isinstance(tag, str)]
    if len(texts) < len(tags):
        raise Malformed(f"{where} has a tag that is no text")
    payload_type, payload = fields.get("payloadType"), fields.get("payload")
    if payload_type not in (None, "json", "text"):
        raise Malformed(f"{where} has the payloadType {json_text.shown(payload_type)}")
    if payload is None:
        return JournalEvent(seq_nr, frozenset(texts))
    if payload_type != "text":
        return JournalEvent(seq_nr, frozenset(texts), "json", json_text.render(payload))
    if not isinstance(payload, str):
        raise Malformed(f"{where} has a payload that is no text")
    return JournalEvent(seq_nr, frozenset(texts), "text", payload)


def _metadata(value: Json) -> tuple[Duration | None, Json]:
    fields = _object({} if value is None else value, "metadata")
    expiry = fields.get("expireAfter")
    try:
        if isinstance(expiry, str):
            return duration.parse(expiry), fields.get("data")
        if isinstance(expiry, int) and not isinstance(expiry, bool):
            return duration.of_milliseconds(expiry), fields.get("data")
    except ValueError as error:
        raise Malformed(f"metadata.expireAfter: {error}") from error
    if expiry is not None:
        raise Malformed(f"metadata.expireAfter is {json_text.shown(expiry)}, no duration")
    return None, fields.get("data")


def _from_binary(value: bytes) -> Payload:
    if not value:
        raise Malformed("the value is empty")
    if value[0] == _WITH_METADATA:
        try:
            events, rest = _events(value)
            return Payload(events, *_metadata(_object(_json(rest, "metadata"), "metadata")))
        except Malformed:
            # Read as version 0 below, which fails for the same reason if the events are malformed.
            pass
    return Payload(_events(value)[0])


def _events(value: bytes) -> tuple[tuple[JournalEvent, ...], bytes]:
    """Return the events and the bytes after them."""
    reader = _BytesReader(value[1:])
    count = reader.integer()
    if count < 1:
        raise Malformed("the value has no events")
    # One after the other, so that a count that is far too large ends with the bytes.
    events = tuple(_binary_event(reader.sized(), f"events[{index}]") for index in range(count))
    return events, reader.rest()


def _binary_event(value: bytes, where: str) -> JournalEvent:
    reader = _BytesReader(value)
    seq_nr = reader.long()
    if not 1 <= seq_nr <= MAX_SEQ_NR:
        raise Malformed(f"{where}.seqNr is {seq_nr} and no seq nr")
    tags = frozenset(utf8(tag, f"{where}.tags") for tag in _all_sized(reader.sized()))
    kind = reader.byte()
    payload = reader.sized()
    match kind:
        case 0:
            return JournalEvent(seq_nr, tags)
        case 1:
            return JournalEvent(seq_nr, tags, "binary", binary=payload)
        case 2:
            text = json_text.render(_json(payload, f"{where}.payload"))
            return JournalEvent(seq_nr, tags, "json", text)
        case 3:
            return JournalEvent(seq_nr, tags, "text", utf8(payload, f"{where}.payload"))
    raise Malformed(f"{where} has the payload type {kind}")


def _all_sized(value: bytes) -> Iterator[bytes]:
    reader = _BytesReader(value)
    while reader.remaining:
        yield reader.sized()


class _BytesReader:
    """Bytes that are read from the front."""

    def __init__(self, value: bytes) -> None:
        self._value = value
        self._position = 0

    @property
    def remaining(self) -> int:
        return len(self._value) - self._position

    def byte(self) -> int:
        return self._take(1)[0]

    def integer(self) -> int:
        return int(struct.unpack(">i", self._take(4))[0])

    def long(self) -> int:
        return int(struct.unpack(">q", self._take(8))[0])

    def sized(self) -> bytes:
        return self._take(self.integer())

    def rest(self) -> bytes:
        return self._take(self.remaining)

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= self.remaining:
            raise Malformed(f"the value ends early: {size} bytes wanted, {self.remaining} left")
        chunk = self._value[self._position : self._position + size]
        self._position += size
        return chunk


def _json(value: bytes, where: str) -> Json:
    try:
        return json_text.parse(utf8(value, where))
    except Malformed:
        raise
    except ValueError as error:
        raise Malformed(f"{where} is not JSON: {error}") from error


def _object(value: Json, where: str) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise Malformed(f"{where} is no JSON object")
    return value
