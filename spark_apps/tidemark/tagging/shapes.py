"""The shapes of the frames of tag-write, step by step.

A series is a persistence id and a tag. Frames that begin with messages have the columns of
`journal.shapes.MESSAGES` under the same names.
"""

from __future__ import annotations

from tidemark.journal.shapes import EVENT, ID, MESSAGE_KEYS, MESSAGES
from tidemark.spark.shapes import Shape

LONGEST_TAG = 65_521
"""Bytes (UTF-8) of the longest tag that can have a tag view: a partition key of Cassandra has at
most 65,535 bytes, of which the time bucket and the lengths of both parts take 14."""
SERIES: Shape = {**ID, "tag": "string"}
READ: Shape = {
    **MESSAGES,
    "ser_id": "int",
    "ser_manifest": "string",
    "event_manifest": "string",
    "event": "binary",
}
"""Messages with the payload columns that decide an event's tags and whether it can be written."""
INDEX: Shape = {**MESSAGES, "cause": "string"}
"""Events to be tagged.

`tags`: stored and from rules, sorted; null when there is none, or when the event cannot be written.
`cause`: why a tagged event cannot be written, or null.
"""
TAGGED: Shape = {**READ, "cause": "string"}
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
ANY_RANKED: Shape = {**SERIES, "sequence_nr": "bigint", "ticks": "bigint"}
"""What ranking and comparing within a series needs."""
RANKED: Shape = {
    **MESSAGE_KEYS,
    "ticks": "bigint",
    "time_bucket": "bigint",
    "tag": "string",
    "tag_position": "int",
    "rank": "bigint",
}
"""A row for each event and tag, and one without a tag for an event that has none.

`tag_position`: 0 for an event's first tag, null when untagged. `rank`: from 1, among the events
read of that series; null when untagged.
"""
SPANS: Shape = {**ID, "lowest": "bigint", "highest": "bigint", "events": "bigint"}
"""The range of sequence nrs that was read of each persistence id, and the number of events in it;
fewer than from `lowest` to `highest` if some are missing."""
DAMAGED: Shape = {**ID, "lowest": "bigint", "reached": "bigint"}
"""Ids of which events were not found, or not readable, though others were: between the lowest that
was read, and the highest that was read or that tag_write_progress names."""
KNOWN: Shape = {
    **ID,
    "known_to": "bigint",
    "numbers": "map<string,bigint>",
    "is_whole": "boolean",
}
"""How far each persistence id is complete.

`known_to`: 0 if nothing is complete. `numbers`: the tag pid sequence nr of the last complete event
by tag. `is_whole`: `numbers` names every tag that the id had up to `known_to`.
"""
ANCHORS: Shape = {
    **SERIES,
    "anchor_sequence_nr": "bigint",
    "anchor_number": "bigint",
    "progress_sequence_nr": "bigint",
}
"""The latest known number of each series; `progress_sequence_nr` is null without progress."""
ANCHORED: Shape = {
    **SERIES,
    "shift": "bigint",
    "progress_sequence_nr": "bigint",
    "contradiction": "string",
}
"""The shift from ranks to numbers; `contradiction` is text for reports, null when there is none."""
UNANCHORED: Shape = {**SERIES, "highest": "bigint"}
"""Series whose rows must be read; `highest` is the last sequence nr that was read of the id."""
SEEN: Shape = {**ID, "seen_to": "bigint"}
"""The last sequence nr that a tail, tag_scanning or tag_write_progress names."""
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
}
"""RANKED with numbers for ranks; `tag_pid_sequence_nr` is null when untagged."""
BUCKETS: Shape = {"time_bucket": "bigint", "is_planned": "boolean"}
"""The time buckets of this run (`is_planned`), and those done before; unique."""
MARKED: Shape = {
    **NUMBERED,
    "is_covered": "boolean",
    "is_planned": "boolean",
    "is_open": "boolean",
}
"""NUMBERED with marks.

`is_covered`: the time bucket is one of BUCKETS. `is_planned`: it belongs to this run. `is_open`: a
tagged event that is neither covered nor behind its progress.
"""
TO_PLACE: Shape = {
    **MESSAGE_KEYS,
    "tag": "string",
    "time_bucket": "bigint",
    "tag_pid_sequence_nr": "bigint",
}
"""What a row of the tag views is made from, besides the payload."""
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
"""Rows of tag_write_progress: of the last event of each series."""
WHOLE_SERIES: Shape = {
    **SERIES,
    "sequence_nr": "bigint",
    "tag_pid_sequence_nr": "bigint",
    "first_time_bucket": "bigint",
    "last_time_bucket": "bigint",
}
"""The length of each series whose first event is present, and of the untagged events of an id.

`tag`: null for the untagged. `sequence_nr`: the highest. `tag_pid_sequence_nr`: meaningless without
a tag. The time buckets are those of any of its events.
"""
COVERED: Shape = EVENT
"""The highest covered event of each persistence id, tagged or not, before its first open one."""
TAILS: Shape = {**EVENT, "numbers": "map<string,bigint>", "is_whole": "boolean"}
"""Where the next run begins; `sequence_nr` is that of the last complete event, or 0."""
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
