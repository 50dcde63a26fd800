"""Events as the unit test of a definition gives them, as the rows of its source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

from tidemark.errors import InvalidInput
from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize
from tidemark.projection.definition.model import Definition
from tidemark.projection.envelope import IS_SNAPSHOT
from tidemark.window import EPOCH

Event = Mapping[str, Any]

_REQUIRED = ("persistence_id", "sequence_nr", "timestamp")
_OPTIONAL = {"tags": (), "ser_id": 0, "ser_manifest": "", "event": None}
COLUMNS = (
    "persistence_id string, sequence_nr bigint, event_timeuuid string, ticks bigint,"
    " time_bucket bigint, tags array<string>, ser_id int, ser_manifest string, event binary,"
    " is_snapshot boolean"
)
"""As `EventSource.rows` has them, and is_snapshot."""
TIME_BUCKET = 4
"""Its place in such a row."""


def rows_of(
    event: Event, number: int, definition: Definition, size: BucketSize
) -> list[tuple[Any, ...]]:
    """Return an event in the form of the projection's source: from tag views, once for each tag.

    Args:
        event: as `testing.run_projection` takes it.
        number: which of the given events it is, for errors.
        definition: of the projection.
        size: of the time buckets.

    Returns:
        Rows of COLUMNS; none if the source does not read the persistence id.

    Raises:
        InvalidInput: something is missing, or cannot be what it is given as.
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
    key = (
        event["persistence_id"],
        event["sequence_nr"],
        keys.ticks_timeuuid(ticks, clock_sequence=0, node=1),
        ticks,
        bucket,
    )
    payload = (
        optional_values["ser_id"],
        optional_values["ser_manifest"],
        _payload(event, number),
        is_snapshot,
    )
    tags = sorted(optional_values["tags"])
    source = definition.source
    if not source.reads(event["persistence_id"]):
        return []
    if not source.reads_tag_views:
        return [(*key, tags, *payload)]
    return [(*key, [tag], *payload) for tag in tags if tag in source.series_tags]


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
