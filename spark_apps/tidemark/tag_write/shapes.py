"""The shapes of the frames of tag-write, step by step.

A series is a persistence id and a tag. Frames of messages have the columns of
`pekko.shapes.MESSAGES` under the same names.
"""

from __future__ import annotations

from tidemark.journals.pekko.shapes import EVENT, EVENT_PAYLOAD, ID, MESSAGE_KEYS, MESSAGES
from tidemark.numbering.shapes import ENTRIES as POINTS_ENTRIES
from tidemark.numbering.shapes import NUMBERED as RULE_NUMBERED
from tidemark.numbering.shapes import REACHED as RULE_REACHED
from tidemark.numbering.shapes import SERIES
from tidemark.spark.shapes import Shape

LONGEST_TAG = 65_521
"""Bytes (UTF-8) of the longest tag that can have a tag view: a partition key of Cassandra has at
most 65,535 bytes, of which the time bucket and the lengths of both parts take 14."""
READ: Shape = {**MESSAGES, **EVENT_PAYLOAD}
"""Messages with the payload columns that decide an event's tags and whether it can be written."""
INDEX: Shape = {**MESSAGES, "cause": "string", "unwritable_tags": "array<string>"}
"""Events to be tagged.

`tags`: stored and from rules, sorted; null if there is none, or if the event cannot be written.
`cause`: why a tagged event cannot be written, or null. `unwritable_tags`: its tags then, else null.
"""
TAGGED: Shape = {**READ, **INDEX}
"""INDEX with the payload columns of READ."""
UNWRITABLE: Shape = {
    **MESSAGE_KEYS,
    "time_bucket": "bigint",
    "cause": "string",
    "ser_id": "int",
    "ser_manifest": "string",
    "event": "binary",
}
"""Tagged events that cannot be written, as `ledger.quarantine.write` takes them."""
ENTRIES: Shape = {
    **POINTS_ENTRIES,
    **MESSAGE_KEYS,
    "time_bucket": "bigint",
    "cause": "string",
    "unwritable_tags": "array<string>",
    "tag_position": "int",
}
"""INDEX with a row for each event and tag, and a row for each event without a tag.

`tag_position`: 0 for an event's first tag, null when untagged.
"""
ENTRIES_OF_ROWS: Shape = {**POINTS_ENTRIES, "timestamp": "string"}
"""ENTRIES known by their rows only."""
NUMBERED_POINTS: Shape = {**RULE_NUMBERED, "timestamp": "string", "time_bucket": "bigint"}
"""The points of the rule, with columns of ENTRIES; `time_bucket` is null of an event that is known
by its row only."""
DOUBTS: Shape = {**SERIES, "is_contradicted": "boolean"}
"""Series whose rows must be read."""
CONTRADICTIONS: Shape = {**SERIES, "contradiction": "string"}
"""`contradiction`: text for reports."""
SPANS: Shape = {**ID, "lowest": "bigint", "highest": "bigint"}
POSITIONS: Shape = {**RULE_REACHED, "named_nr": "bigint"}
"""The recorded progress: `number` events up to `sequence_nr`, which is never before the events that
a run reads. `named_nr`: the recorded sequence nr itself.
"""
COMPLETE: Shape = {**ID, "known_to": "bigint", "read_to": "bigint"}
"""How far each persistence id is complete, and how far it has been read: events up to `read_to` are
written if their time bucket was done by then, or as soon as it is."""
SEEN: Shape = {**ID, "seen_to": "bigint"}
"""The last sequence nr recorded in a tail, tag_scanning or tag_write_progress."""
UNSEEN: Shape = {**ID, "unseen": "bigint"}
"""The number, above 0, of messages that were deleted before they were tagged."""
NUMBERED_ROWS: Shape = {
    **SERIES,
    "sequence_nr": "bigint",
    "ticks": "bigint",
    "timestamp": "string",
    "tag_pid_sequence_nr": "bigint",
}
"""Events or rows with their numbers."""
NUMBERED: Shape = {
    **NUMBERED_ROWS,
    "time_bucket": "bigint",
    "tag_position": "int",
    "progress_sequence_nr": "bigint",
    "written_to": "bigint",
}
"""ENTRIES with numbers; `tag_pid_sequence_nr` is null when untagged.

`progress_sequence_nr`: that of the recorded progress, null without progress. `written_to`: the last
event that needs no row from this run, by progress or because an earlier run has read it.
"""
BUCKETS: Shape = {"time_bucket": "bigint", "is_planned": "boolean", "is_emptied": "boolean"}
"""The time buckets of this run (`is_planned`), and those done before, some of which purge has
emptied; unique."""
MARKED: Shape = {
    **NUMBERED,
    "is_covered": "boolean",
    "is_planned": "boolean",
    "is_late": "boolean",
    "is_open": "boolean",
}
"""NUMBERED with marks.

`is_covered`: the time bucket is one of BUCKETS. `is_planned`: it belongs to this run. `is_late`: a
tagged event of a time bucket that was done before the event was first seen. `is_open`: a tagged
event that is neither covered nor reached by progress.
"""
TO_PLACE: Shape = {
    **MESSAGE_KEYS,
    "tag": "string",
    "time_bucket": "bigint",
    "tag_pid_sequence_nr": "bigint",
}
"""The values of a row of the tag views, without the payload."""
VIEW_ROWS: Shape = {
    "tag_name": "string",
    "timebucket": "bigint",
    "timestamp": "string",
    "persistence_id": "string",
    "tag_pid_sequence_nr": "bigint",
    "sequence_nr": "bigint",
}
"""Rows of the tag views, with the payload columns."""
PROGRESS_ROWS: Shape = {
    **SERIES,
    "sequence_nr": "bigint",
    "tag_pid_sequence_nr": "bigint",
    "offset": "string",
}
"""Rows of tag_write_progress, for the last event of each series."""
WHOLE_SERIES: Shape = {
    **SERIES,
    "sequence_nr": "bigint",
    "tag_pid_sequence_nr": "bigint",
    "first_time_bucket": "bigint",
    "last_time_bucket": "bigint",
}
"""The length of each series whose first event is present, and of the untagged events of an id.

`tag`: null for untagged events. `sequence_nr`: the highest. `tag_pid_sequence_nr`: meaningless
without a tag. The time buckets are the first and last of the events.
"""
COVERED: Shape = EVENT
"""The highest covered event of each persistence id, tagged or not, before its first open one."""
TAILS: Shape = {**EVENT, "read_to": "bigint", "series": "int"}
"""Where the next run begins: `sequence_nr` is that of the last complete event, or 0. `series`: the
number of tags for which the id has progress."""
STORED_TAILS: Shape = {**TAILS, "write_time": "bigint"}
BUCKET_COUNTS: Shape = {
    "time_bucket": "bigint",
    "events_read": "bigint",
    "tag_rows_written": "bigint",
    "late_tag_rows": "bigint",
    "tags": "bigint",
}
"""`late_tag_rows`: written outside this run's time buckets. `tags`: the approximate number of
distinct tags."""
HELD: Shape = {"time_bucket": "bigint"}
"""The time buckets to hold, unique."""
LATE_PARTITIONS: Shape = {"time_bucket": "bigint", "tag": "string"}
