"""A whole record of a journal topic: what kafka-journal's replicator makes of it."""

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
    """A record as it stands in Kafka; a header's value may be missing."""

    key: bytes | None
    timestamp: datetime | None
    headers: Sequence[tuple[str, bytes | None]]
    value: bytes | None


@dataclass(frozen=True)
class Decoded:
    """What a record does to the journal of its key.

    Attributes:
        id: the record's key.
        action: of the header.
        payload: of an append.
        headers: the user's, of an append; of one that stands twice the last counts.
    """

    id: str
    action: Action
    payload: Payload | None = None
    headers: Mapping[str, str] | None = None

    @property
    def metadata(self) -> str:
        """Return the metadata of the events of an append as their column keeps it."""
        if self.payload is None or self.action.metadata is None:
            raise ValueError(f"{self.action.type} has no metadata")
        of_payload: dict[str, Json] = {}
        if self.payload.expire_after is not None:
            of_payload["expireAfter"] = str(self.payload.expire_after)
        if self.payload.data is not None:
            of_payload["data"] = self.payload.data
        return json_text.render({"header": dict(self.action.metadata), "payload": of_payload})


def decode(record: Record) -> Decoded | None:
    """Decode a record; None if the replicator passes over it.

    It does so without a key, a timestamp, a header that names a known action, or the value of an
    append.

    Raises:
        Malformed: the replicator stops at it.
    """
    values = [value for name, value in record.headers if name == action.HEADER]
    if record.key is None or record.timestamp is None or not values or values[0] is None:
        return None
    found = action.parse(values[0])
    if found is None:
        return None
    key = utf8(record.key, "the key")
    if found.type is not ActionType.APPEND:
        return Decoded(key, found)
    if record.value is None or found.payload_type is None:
        return None
    own = {
        name: utf8(value or b"", f"the header {name}")
        for name, value in record.headers
        if name != action.HEADER
    }
    return Decoded(key, found, payload.parse(record.value, found.payload_type), own)
