"""The header `journal.action`: the action of a record on a journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from tidemark.journals.kafka.wire import json_text
from tidemark.journals.kafka.wire.fields import Malformed, integer, optional_text
from tidemark.journals.kafka.wire.json_text import Json

HEADER = "journal.action"


class ActionType(StrEnum):
    """The kind of a record's action."""

    APPEND = "append"
    MARK = "mark"
    DELETE = "delete"
    PURGE = "purge"


class PayloadType(StrEnum):
    """The format of the value of an append."""

    BINARY = "binary"
    JSON = "json"


@dataclass(frozen=True)
class Action:
    """An action.

    Attributes:
        type: the kind of the action.
        first: the lowest seq nr of an append, as its writer states it; events have their own.
        to: the highest seq nr of an append, or up to which a delete deletes.
        payload_type: the format of the value of an append.
        metadata: the header's part of the metadata: an object with `data` or an empty one.
        origin: who wrote it.
        version: the library that wrote it.
        mark_id: of a mark.
    """

    type: ActionType
    first: int | None = None
    to: int | None = None
    payload_type: PayloadType | None = None
    metadata: Mapping[str, Json] | None = None
    origin: str | None = None
    version: str | None = None
    mark_id: str | None = None


def parse(header: bytes) -> Action | None:
    """Parse the header's value; None if it has no known action.

    Raises:
        Malformed: it is not JSON, or its action is incomplete.
    """
    try:
        value = json_text.parse(header.decode("utf-8"))
    except ValueError as error:
        raise Malformed(f"the header {HEADER} is not JSON: {error}") from error
    if not isinstance(value, dict):
        return None
    for name in ActionType:
        fields = value.get(name)
        if isinstance(fields, dict):
            return _action(name, fields)
    return None


def purge_header(origin: str | None = None, version: str | None = None) -> bytes:
    """Return the header's value of a record that purges the journal of its key.

    Such a record has no other header, and no value. `version` is that of the kafka-journal library,
    if it is the writer.
    """
    fields = {"origin": origin, "version": version}
    present: Json = {name: value for name, value in fields.items() if value is not None}
    return json_text.render({ActionType.PURGE.value: present}).encode()


def _action(name: ActionType, fields: dict[str, Json]) -> Action:
    where = f"{HEADER}: {name}"
    origin = optional_text(fields, "origin", where)
    version = optional_text(fields, "version", where)
    match name:
        case ActionType.APPEND:
            bounds = fields.get("range")
            if not isinstance(bounds, dict):
                raise Malformed(f"{where} has no range")
            first, to = (integer(bounds, end, f"{where}.range") for end in ("from", "to"))
            if first > to:
                raise Malformed(f"{where}.range goes from {first} down to {to}")
            payload_type = fields.get("payloadType")
            if payload_type not in list(PayloadType):
                raise Malformed(f"{where} has the payloadType {json_text.shown(payload_type)}")
            return Action(
                name,
                first,
                to,
                PayloadType(cast(str, payload_type)),
                _metadata(fields.get("metadata")),
                origin,
                version,
            )
        case ActionType.MARK:
            mark_id = optional_text(fields, "id", where)
            if mark_id is None:
                raise Malformed(f"{where} has no id")
            return Action(name, origin=origin, version=version, mark_id=mark_id)
        case ActionType.DELETE:
            to = integer(fields, "to", where)
            return Action(name, to=to, origin=origin, version=version)
        case ActionType.PURGE:
            return Action(name, origin=origin, version=version)


def _metadata(value: Json) -> Mapping[str, Json]:
    """Return the part of the metadata that is kept; older writers wrote none."""
    data = value.get("data") if isinstance(value, dict) else None
    return {} if data is None else {"data": data}
