"""The shapes of the frames of a comparison of topics with tables."""

from __future__ import annotations

from tidemark.journals.kafka.tables import JOURNAL_KEY
from tidemark.replicate.shapes import ACTIONS, HEAD
from tidemark.spark.shapes import Shape

BOUNDS: Shape = {
    "topic": "string",
    "partition": "int",
    "lowest": "bigint",
    "first": "bigint",
    "last": "bigint",
    "pointer": "bigint",
    "is_complete": "boolean",
}
"""`topic_scope.OffsetBounds` of a topic partition."""
READ: Shape = {**ACTIONS, "timestamp": "timestamp"}
"""Every record read, also without effect; `id` is null if the record has no journal."""
EVENT_CONTENT: Shape = {
    "payload": "bigint",
    "tags": "bigint",
    "metadata": "bigint",
    "headers": "bigint",
    "origin": "string",
    "version": "string",
}
"""The compared parts of an event, in the order of messages; long parts by their hash."""
EVENT_KEY: Shape = {
    **JOURNAL_KEY,
    "partition": "int",
    "offset": "bigint",
    "seq_nr": "bigint",
    "timestamp": "timestamp",
}
"""The keys of an event's record and of its row in journal."""
EVENTS: Shape = {
    **EVENT_KEY,
    "segment": "bigint",
    "content": f"struct<{','.join(f'{name}:{kind}' for name, kind in EVENT_CONTENT.items())}>",
}
"""Events of records, or events in journal."""
VERDICTS: Shape = {
    **EVENT_KEY,
    "segment": "bigint",
    "verdict": "string",
    "differing": "string",
    "is_foreign": "boolean",
}
"""Events on which records and journal disagree, each with its verdict (`events.Verdict`), the names
of the parts that differ, and whether the record at the row's offset is certainly another record."""
JOURNALS: Shape = {
    **JOURNAL_KEY,
    "partition": "int",
    "said": HEAD,
    "has_append": "boolean",
    "is_whole": "boolean",
    "begins": "boolean",
    "deleted_since": "boolean",
    "most_delete_to": "bigint",
    "last_append": "bigint",
    "last_offset": "bigint",
    "last_at": "timestamp",
    "is_in_doubt": "boolean",
}
"""The state of journals by their records up to the pointer.

`said` is the head, null if the journal is purged; the other columns describe the journal since its
last purge. `is_whole`: all of its records exist. `begins`: they begin with event 1.
`deleted_since`: a delete follows the first append. `most_delete_to` is the highest seq nr that a
delete names; `last_append` is the offset of the last append, `last_at` its time, and `last_offset`
the offset of the last record that changes the journal. `is_in_doubt`: a delete or purge after the
pointer may have been replicated already, or the records are in several partitions, whose offsets do
not compare.
"""
