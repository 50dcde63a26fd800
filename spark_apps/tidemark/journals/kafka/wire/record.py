"""Decodes a complete record of a journal topic as kafka-journal's replicator does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidemark.journals.kafka.wire import action, json_text, payload
from tidemark.journals.kafka.wire.action import Action, ActionType
from tidemark.journals.kafka.wire.fields import utf8
from tidemark.journals.kafka.wire.json_text import Json
from tidemark.journals.kafka.wire.payload import Payload


@dataclass(frozen=True)
class Record:
    """A record as it is in Kafka; a header's value may be missing."""

    key: bytes | None
    timestamp: datetime | None
    headers: Sequence[tuple[str, bytes | None]]
    value: bytes | None


@dataclass(frozen=True)
class Decoded:
    """The action of a record on the journal of its key.

    Attributes:
        id: the record's key.
        action: of the header.
        payload: of an append.
        headers: the user's, of an append; the last of repeated headers counts.
    """

    id: str
    action: Action
    payload: Payload | None = None
    headers: Mapping[str, str] | None = None

    @property
    def metadata(self) -> str:
        """Return the metadata of an append's events as their column stores it."""
        if self.payload is None or self.action.metadata is None:
            raise ValueError(f"{self.action.type} has no metadata")
        payload_part: dict[str, Json] = {}
        if self.payload.expire_after is not None:
            payload_part["expireAfter"] = str(self.payload.expire_after)
        if self.payload.data is not None:
            payload_part["data"] = self.payload.data
        return json_text.render({"header": dict(self.action.metadata), "payload": payload_part})


def decode(record: Record) -> Decoded | None:
    """Decode a record; None if the replicator ignores it.

    The replicator ignores records without a key, a timestamp, a header with a known action, or the
    value of an append.

    Raises:
        Malformed: the replicator stops at it.
    """
    values = [value for name, value in record.headers if name == action.HEADER]
    if record.key is None or record.timestamp is None or not values or values[0] is None:
        return None
    parsed = action.parse(values[0])
    if parsed is None:
        return None
    key = utf8(record.key, "the key")
    if parsed.type is not ActionType.APPEND:
        return Decoded(key, parsed)
    if record.value is None or parsed.payload_type is None:
        return None
    user_headers = {
        name: utf8(value or b"", f"the header {name}")
        for name, value in record.headers
        if name != action.HEADER
    }
    return Decoded(key, parsed, payload.parse(record.value, parsed.payload_type), user_headers)
