"""The columns and types of the frames of a projection, in the order of its steps.

A series is a persistence id (tag is '', numbers are sequence nrs), or a persistence id and tag
(numbers are tag pid sequence nrs). The time of an event is its timeuuid as text (`event_timeuuid`),
100 ns since 1582 (`ticks`), epoch milliseconds (`time_bucket`), or the Spark TIMESTAMP that
definitions read (`timestamp`).
"""

from __future__ import annotations

from tidemark.journals.pekko import shapes as journal
from tidemark.spark.shapes import Shape

ID: Shape = {"persistence_id": "string"}
EVENT: Shape = {**ID, "sequence_nr": "bigint"}
"""The key of an event."""
SERIES: Shape = {**ID, "tag": "string"}
IN_SERIES: Shape = {**SERIES, "number": "bigint"}

UNREAD: Shape = {**EVENT, "time_bucket": "bigint"}
"""Keys of events in any time bucket; the event's time has the journal's name."""
KEYS: Shape = {
    **IN_SERIES,
    "sequence_nr": "bigint",
    "event_timeuuid": "string",
    "time_bucket": "bigint",
}
"""The time bucket of an event, and its number in its series."""
PAYLOAD: Shape = journal.EVENT_PAYLOAD
EVENTS: Shape = {**KEYS, "ticks": "bigint", "tags": "array<string>", **PAYLOAD}
"""The rows of a source; `tags` may be null. An event with several tags has a row for each."""
DISTINCT_EVENTS: Shape = {
    **EVENT,
    "ticks": "bigint",
    "event_timeuuid": "string",
    "time_bucket": "bigint",
    "tags": "array<string>",
    **PAYLOAD,
}
"""One row for each event, with all its tags."""
NUMBERS: Shape = {**IN_SERIES, "time_bucket": "bigint", "epoch_ms": "bigint"}
"""The numbers of every series; `epoch_ms` is the event's own time, if known."""

STORED: Shape = {
    **SERIES,
    "stored_number": "bigint",
    "stored_sequence_nr": "bigint",
}
"""How far a series was consumed by earlier runs."""
OFFSETS: Shape = {**STORED, "stored_timeuuid": "string", "snapshot_nr": "bigint"}
"""Rows of `projection_offset`. `snapshot_nr`: the snapshot that the series began with, if any."""
DELETED: Shape = {**ID, "deleted_to": "bigint"}
WRITTEN: Shape = {**ID, "written_to": "bigint"}
"""Up to which number a series was written, in journals that leave numbers out."""
RESTARTED: Shape = {**SERIES, "former_ticks": "bigint"}
"""Series that began again; events not newer than `former_ticks` belong to the former life."""

CANDIDATES: Shape = {**KEYS, "is_there": "boolean", "is_before": "boolean", "is_late": "boolean"}
"""The events of each series that decide how far it can be consumed.

`is_there`: the event may be consumed now. `is_before`: it is older than the projection's first time
bucket. `is_late`: its time bucket is done and not planned.
"""
SIGHTINGS: Shape = {name: kind for name, kind in CANDIDATES.items() if name != "is_late"}
"""The columns of CANDIDATES that frontiers depend on."""
FRONTIERS: Shape = {
    **SERIES,
    "stored_number": "bigint",
    "base": "bigint",
    "reached_number": "bigint",
    "reached_sequence_nr": "bigint",
    "reached_timeuuid": "string",
    "deleted_to": "bigint",
    "highest_number": "bigint",
    "first_before": "bigint",
    "is_repeated": "boolean",
}
"""How far each series can be consumed.

`stored_number`: null at the first encounter. `base`: the number after which the series begins.
`reached_sequence_nr`: null if unknown. `reached_timeuuid`: null unless an event is accepted.
`deleted_to`: 0 if no event is deleted. `highest_number`: of events that are there and not before,
accepted or not; null without any. `first_before`: the lowest number above the stored one (if any)
that is older than the projection's first time bucket; null without one. `is_repeated`: a number
occurs twice, or an event has two numbers.
"""
VALIDATED: Shape = {**IN_SERIES, "time_bucket": "bigint", "result": "string"}
"""Events with the result of their validation, a `rule.Validation`."""
GAPS: Shape = {
    "time_bucket": "bigint",
    **SERIES,
    "next_number": "bigint",
    "first_seen": "bigint",
    "is_next_seen": "boolean",
    "holes": "array<struct<first:bigint,last:bigint>>",
}
"""The series that hold events of a time bucket back.

`next_number`: the first number that is not accepted. `first_seen`: the lowest existing number from
there on. `is_next_seen`: both are equal, so that the event cannot be consumed yet. `holes`: missing
numbers, both ends inclusive.
"""
RANGES: Shape = {**SERIES, "first_number": "bigint", "last_number": "bigint"}
"""Numbers of a series, both ends inclusive."""
MISSING: Shape = {"time_bucket": "bigint", **RANGES}
STARTS: Shape = {**SERIES, "snapshot_nr": "bigint", "snapshot_timeuuid": "string"}
"""The snapshots that persistence ids begin with."""
SNAPSHOT_BASES: Shape = {**ID, "snapshot_nr": "bigint"}
"""The snapshots that persistence ids began with: events up to `snapshot_nr` are not processed."""
REMOVED_STATE_KEY: Shape = {"projection": "string", "slice": "int", **ID}
REMOVED_STATES: Shape = {**EVENT, "definition_version": "int", "generation": "bigint"}
"""Persistence ids whose state is None up to `sequence_nr`."""
MOVED_OFFSETS: Shape = {
    "slice": "int",
    **SERIES,
    "sequence_nr": "bigint",
    "tag_pid_sequence_nr": "bigint",
    "timestamp": "string",
}
"""The offsets that move forward, with the column names of `projection_offset`.

`tag_pid_sequence_nr` is null for a series without a tag; `timestamp` is timeuuid text. If series
begin with snapshots, there is `snapshot_sequence_nr`, too.
"""

DECODED: Shape = {
    **EVENT,
    "timestamp": "timestamp",
    "time_bucket": "bigint",
    "tags": "array<string>",
    "serializer_id": "int",
    "manifest": "string",
    "event_manifest": "string",
    "metadata": "struct<serializer_id:int,manifest:string,payload:binary>",
}
"""Events with the fields of their payloads, and `_source`.

`_source` has timeuuid, size (bytes of the payload), skipped (a decoder leaves the event out), and
cause and event, which are null unless the payload cannot be read. entity_type and slice are added
later: computing a slice costs more than decoding a payload.
"""
READABLE: Shape = {**DECODED, "entity_type": "string", "slice": "int"}
"""The table `events` of the definitions."""
UNREADABLE: Shape = {
    **EVENT,
    "timestamp": "string",
    "cause": "string",
    **journal.PAYLOAD,
    "time_bucket": "bigint",
}
"""Events that cannot be processed, for `ledger.quarantine.write`."""
PROCESSED: Shape = {**EVENT, "time_bucket": "bigint"}
"""Events that are in a result, or were left out of it on purpose.

In mode fold, they have in_state_since (bigint): the generation of the state from an earlier run
that includes the event; null if this run has folded the event.
"""
BUCKET_COUNTS: Shape = {
    "time_bucket": "bigint",
    "events_read": "bigint",
    "quarantined": "bigint",
    "bytes_read": "bigint",
    "readable": "bigint",
    "filled": "map<string,bigint>",
}
"""`filled`: number of readable events that have a value, by field of the payload."""
