"""The frames of a projection, step by step: their columns and types under one name each.

A series is a persistence id (tag is '', numbers are sequence nrs), or a persistence id and tag
(numbers are tag pid sequence nrs). Times are named by what they are: `event_timeuuid` is the text
of the event's own timeuuid, `ticks` its 100 ns since 1582, `time_bucket` epoch milliseconds;
`timestamp`, a Spark TIMESTAMP, is what definitions see.
"""

from __future__ import annotations

from tidemark.journals.pekko import shapes as journal
from tidemark.spark.shapes import Shape

ID: Shape = {"persistence_id": "string"}
EVENT: Shape = {**ID, "sequence_nr": "bigint"}
"""What tells an event from others."""
SERIES: Shape = {**ID, "tag": "string"}
IN_SERIES: Shape = {**SERIES, "number": "bigint"}

UNREAD: Shape = {**EVENT, "time_bucket": "bigint"}
"""Keys of events wherever they lie, with the time of the event under the journal's name."""
KEYS: Shape = {
    **IN_SERIES,
    "sequence_nr": "bigint",
    "event_timeuuid": "string",
    "time_bucket": "bigint",
}
"""Where an event lies and which number it has in its series."""
PAYLOAD: Shape = journal.EVENT_PAYLOAD
EVENTS: Shape = {**KEYS, "ticks": "bigint", "tags": "array<string>", **PAYLOAD}
"""The rows of a source; `tags` may be null. An event of several tags has a row for each."""
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
"""The numbers of every series; `epoch_ms` is the event's own time, where it is known."""

STORED: Shape = {
    **SERIES,
    "stored_number": "bigint",
    "stored_sequence_nr": "bigint",
}
"""How far a series was consumed before."""
OFFSETS: Shape = {**STORED, "stored_timeuuid": "string", "snapshot_nr": "bigint"}
"""STORED as `projection_offset` has it. `snapshot_nr`: the snapshot it began with, if it did."""
DELETED: Shape = {**ID, "deleted_to": "bigint"}
WRITTEN: Shape = {**ID, "written_to": "bigint"}
"""Up to which number a series was written, where numbers may be left out."""
RESTARTED: Shape = {**SERIES, "former_ticks": "bigint"}
"""Series that began anew; what is not newer than `former_ticks` belongs to the former life."""

CANDIDATES: Shape = {**KEYS, "is_there": "boolean", "is_before": "boolean", "is_late": "boolean"}
"""What was seen of each series.

`is_there`: it may be consumed now. `is_before`: it lies before the projection's first time bucket.
`is_late`: it lies in a time bucket that is done and not planned.
"""
SIGHTINGS: Shape = {name: kind for name, kind in CANDIDATES.items() if name != "is_late"}
"""CANDIDATES as far as frontiers depend on them."""
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

`stored_number`: null at the first encounter. `base`: the number it begins behind.
`reached_sequence_nr`: null if it is not known. `reached_timeuuid`: null unless something is
accepted. `deleted_to`: 0 if nothing is deleted. `highest_number`: of what is there and not before,
accepted or not; null if nothing is. `first_before`: the lowest number above the stored one, if
there is one, that lies before the projection's first time bucket; null if none does.
`is_repeated`: a number is there twice, or an event has two of them.
"""
VALIDATED: Shape = {**IN_SERIES, "time_bucket": "bigint", "result": "string"}
"""Events with what becomes of them, see `rule.Validation`."""
GAPS: Shape = {
    "time_bucket": "bigint",
    **SERIES,
    "next_number": "bigint",
    "first_seen": "bigint",
    "is_next_seen": "boolean",
    "holes": "array<struct<first:bigint,last:bigint>>",
}
"""The series that hold events of a time bucket back.

`next_number`: the first that is not accepted. `first_seen`: the lowest from there on that is there.
`is_next_seen`: they are the same; it cannot be consumed yet. `holes`: missing numbers, both ends
inclusive.
"""
RANGES: Shape = {**SERIES, "first_number": "bigint", "last_number": "bigint"}
"""Numbers of a series, both ends inclusive."""
MISSING: Shape = {"time_bucket": "bigint", **RANGES}
STARTS: Shape = {**SERIES, "snapshot_nr": "bigint", "snapshot_timeuuid": "string"}
"""The snapshots that persistence ids begin with."""
SNAPSHOT_BASES: Shape = {**ID, "snapshot_nr": "bigint"}
"""What a persistence id began with: events at or below `snapshot_nr` are not processed."""
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
"""The offsets that move forward, under the names of `projection_offset`.

`tag_pid_sequence_nr` is null for a series without a tag, `timestamp` is timeuuid text. A series
that begins with a snapshot has its `snapshot_sequence_nr` as well.
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
for an event whose payload cannot be read cause and event, which are null otherwise. entity_type and
slice are not there yet: a slice costs more than a payload does.
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
"""Events that cannot be processed, as `ledger.quarantine.write` takes them."""
PROCESSED: Shape = {**EVENT, "time_bucket": "bigint"}
"""Events that are in a result, or were left out of it on purpose.

Those of mode fold have in_state_since (bigint): the generation of a state that an earlier run has
made and that is past the event; null if this run has folded it.
"""
BUCKET_COUNTS: Shape = {
    "time_bucket": "bigint",
    "events_read": "bigint",
    "quarantined": "bigint",
    "bytes_read": "bigint",
    "readable": "bigint",
    "filled": "map<string,bigint>",
}
"""`filled`: how many readable events have a value in each field of the payload."""
