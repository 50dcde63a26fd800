"""The shapes of the frames that are read from a journal's tables.

Columns keep the names of the tables. `timestamp` is the text of an event's timeuuid; `ticks` is the
time in it (100 ns since 1582), and `time_bucket` the bucket of that time (epoch ms).
"""

from __future__ import annotations

from tidemark.spark.shapes import Shape

ID: Shape = {"persistence_id": "string"}
EVENT: Shape = {**ID, "sequence_nr": "bigint"}
MESSAGE_KEYS: Shape = {**EVENT, "timestamp": "string"}
"""The event's key; `timestamp` differs if a second writer has used the same sequence nr."""
PLACED_EVENTS: Shape = {**EVENT, "time_bucket": "bigint"}
PLACED_MESSAGE_KEYS: Shape = {**MESSAGE_KEYS, "time_bucket": "bigint"}
MESSAGES: Shape = {
    **MESSAGE_KEYS,
    "ticks": "bigint",
    "time_bucket": "bigint",
    "tags": "array<string>",
}
"""Messages, with the requested payload columns. `tags` is null when untagged."""
HAS_OLDER_PAYLOAD = "has_older_payload"
"""A further column of MESSAGES with `event` or has_payload, of tables that have the column
`tables.OLDER_PAYLOAD`: whether the event has its payload there (boolean)."""
PLACED_MESSAGES: Shape = {**MESSAGES, "partition_nr": "bigint"}
"""MESSAGES, each with the partition in its key."""
PAYLOAD: Shape = {"ser_id": "int", "ser_manifest": "string", "event": "binary"}
EVENT_PAYLOAD: Shape = {
    **PAYLOAD,
    "event_manifest": "string",
    "meta_ser_id": "int",
    "meta_ser_manifest": "string",
    "meta": "binary",
}
"""The columns of an event that readers get besides its key, time and tags."""
WHOLE_MESSAGES: Shape = {**MESSAGES, **EVENT_PAYLOAD, "writer_uuid": "string"}
"""MESSAGES with all payload columns (`tables.PAYLOAD_COLUMNS`)."""
TAG_ROWS: Shape = {
    **MESSAGE_KEYS,
    "tag": "string",
    "tag_pid_sequence_nr": "bigint",
    "ticks": "bigint",
    "time_bucket": "bigint",
}
"""Rows of the tag views without payload. `time_bucket` is the one in the row's partition key."""
VIEW_PARTITIONS: Shape = {"tag_name": "string", "timebucket": "bigint"}
"""Keys of the tag views, optionally with further columns of the primary key in its order."""
TAG_ROW_KEYS: Shape = {
    "tag": "string",
    "time_bucket": "bigint",
    "timestamp": "string",
    "persistence_id": "string",
    "tag_pid_sequence_nr": "bigint",
}
"""The complete primary key of the tag views, with the names of TAG_ROWS."""
PROGRESS: Shape = {
    **ID,
    "tag": "string",
    "progress_sequence_nr": "bigint",
    "progress_number": "bigint",
}
"""The last event of each persistence id and tag in tag_write_progress, and its number."""
WRITE_PROGRESS: Shape = {**PROGRESS, "progress_offset": "string"}
"""PROGRESS with the timeuuid text of the last event."""
TIMED_PROGRESS: Shape = {**WRITE_PROGRESS, "progress_written_at": "bigint"}
"""WRITE_PROGRESS with the write time of each row, in microseconds."""
PLACED_PROGRESS: Shape = {**PROGRESS, "progress_bucket": "bigint"}
"""PROGRESS with the time bucket of the last event (epoch ms)."""
SCANNING: Shape = {**ID, "scanned_to": "bigint"}
DELETED: Shape = {**ID, "deleted_to": "bigint"}
STARTS: Shape = {**ID, "first_nr": "bigint"}
"""Where a read begins: `first_nr` is the first sequence nr that may be new and is not deleted."""
KNOWN_IDS: Shape = {**ID, "known_to": "bigint"}
KNOWN_STARTS: Shape = {**STARTS, "known_to": "bigint"}
"""STARTS with the last sequence nr known before, 0 when unknown."""
NAMED: Shape = {**ID, "named_nr": "bigint"}
"""A sequence nr of the persistence id that another table or the index records."""
PARTITIONS: Shape = {**ID, "partition_nr": "bigint"}
PARTITIONED_EVENTS: Shape = {**PARTITIONS, "sequence_nr": "bigint"}
"""Keys of `messages` up to the sequence nr."""
RANGES: Shape = {**PARTITIONS, "first_nr": "bigint", "last_nr": "bigint"}
"""Ranges of sequence nrs within partitions of `messages`; both bounds are inclusive."""
HIGHEST: Shape = {
    **PARTITIONS,
    "first_nr": "bigint",
    "high_nr": "bigint",
    "high_ms": "bigint",
    "named_nr": "bigint",
}
"""The last message of a partition: its sequence nr and time (epoch ms). `first_nr` is where the
read of the persistence id begins; `named_nr` a sequence nr that another table records, or null."""
SNAPSHOTS: Shape = {**ID, "snapshot_nr": "bigint", "epoch_ms": "bigint"}
"""`snapshot_nr`: sequence nr of the last event in the snapshot. `epoch_ms`: when it was taken."""
SNAPSHOT_PAYLOADS: Shape = {
    **MESSAGE_KEYS,
    "ticks": "bigint",
    "time_bucket": "bigint",
    **PAYLOAD,
}
"""Complete snapshots. `timestamp` is the first timeuuid of the snapshot's millisecond, with clock
sequence and node 0; `event` is null if only the older column `snapshot` has the payload."""
