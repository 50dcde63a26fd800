"""Turns the events of a definition's unit test into rows of its source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

from tidemark.errors import InvalidInput
from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize
from tidemark.project import shapes
from tidemark.project.definition.model import Definition
from tidemark.project.envelope import IS_SNAPSHOT
from tidemark.spark.shapes import Shape
from tidemark.window import EPOCH

Event = Mapping[str, Any]

_REQUIRED = ("persistence_id", "sequence_nr", "timestamp")
_OPTIONAL = {
    "tags": (),
    "serializer_id": 0,
    "manifest": "",
    "event_manifest": "",
    "metadata": None,
    "event": None,
}
COLUMNS: Shape = {**shapes.DISTINCT_EVENTS, IS_SNAPSHOT: "boolean"}
"""The columns of DISTINCT_EVENTS, and is_snapshot."""


def rows_of(
    event: Event, number: int, definition: Definition, size: BucketSize
) -> list[dict[str, Any]]:
    """Return the rows (COLUMNS) of an event in the projection's source; in tag views one per tag.

    Empty if the source does not read the persistence id. `event` is as for `run_projection`;
    `number` is its position, for errors.

    Raises:
        InvalidInput: a key is missing, or a value is invalid.
    """
    missing = [name for name in _REQUIRED if name not in event]
    if missing:
        raise InvalidInput(
            f"event {number} has no {', '.join(missing)}", do=f"give it {', '.join(_REQUIRED)}"
        )
    is_snapshot = False
    if definition.starts_from_snapshots:
        is_snapshot = bool(event.get(IS_SNAPSHOT))
        event = {name: value for name, value in event.items() if name != IS_SNAPSHOT}
    optional_values = {name: event.get(name, default) for name, default in _OPTIONAL.items()}
    microseconds = _microseconds(event["timestamp"], number)
    ticks = microseconds * 10 + keys.UUID_EPOCH_TICKS
    bucket = microseconds // 1000 // size.milliseconds * size.milliseconds
    metadata = optional_values["metadata"] or {}
    row = {
        "persistence_id": event["persistence_id"],
        "sequence_nr": event["sequence_nr"],
        "event_timeuuid": keys.ticks_timeuuid(ticks, clock_sequence=0, node=1),
        "ticks": ticks,
        "time_bucket": bucket,
        "tags": sorted(optional_values["tags"]),
        "ser_id": optional_values["serializer_id"],
        "ser_manifest": optional_values["manifest"],
        "event": _payload(event, number),
        "event_manifest": optional_values["event_manifest"],
        "meta_ser_id": metadata.get("serializer_id"),
        "meta_ser_manifest": metadata.get("manifest"),
        "meta": metadata.get("payload"),
        IS_SNAPSHOT: is_snapshot,
    }
    source = definition.source
    if not source.reads(event["persistence_id"]):
        return []
    if not source.reads_tag_views:
        return [row]
    return [{**row, "tags": [tag]} for tag in row["tags"] if tag in source.series_tags]


def _payload(event: Event, number: int) -> bytes:
    fields = {name: value for name, value in event.items() if name not in {*_REQUIRED, *_OPTIONAL}}
    payload = event.get("event")
    if payload is None:
        return json.dumps(fields, default=_as_json).encode()
    if fields:
        raise InvalidInput(
            f"event {number} has bytes in `event` and the fields {', '.join(fields)}",
            do="give the payload in one form",
        )
    return bytes(payload)


def _as_json(value: object) -> object:
    if isinstance(value, datetime | date):
        return value.isoformat()
    raise InvalidInput(f"a field is {type(value).__name__}", do="give what JSON has, or bytes")


def _microseconds(moment: datetime | str, number: int) -> int:
    """Return the microseconds since 1970."""
    when = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    if when.tzinfo is None:
        raise InvalidInput(
            f"the timestamp of event {number} has no time zone", do="end it with Z, or give it UTC"
        )
    return (when - EPOCH) // timedelta(microseconds=1)
