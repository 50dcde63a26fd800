"""The frames of a comparison of topics with tables."""

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
"""Of a topic partition: `asked.Bounds`."""
READ: Shape = {**ACTIONS, "timestamp": "timestamp"}
"""Every record that was read, also one that does nothing; `id` is null of one without a journal."""
EVENT_CONTENT: Shape = {
    "payload": "bigint",
    "tags": "bigint",
    "metadata": "bigint",
    "headers": "bigint",
    "origin": "string",
    "version": "string",
}
"""What is compared of an event, in the order in which it is named; long parts by their hash."""
EVENT_KEY: Shape = {
    **JOURNAL_KEY,
    "partition": "int",
    "offset": "bigint",
    "seq_nr": "bigint",
    "timestamp": "timestamp",
}
"""The place of an event: its record, and its row in journal."""
EVENTS: Shape = {
    **EVENT_KEY,
    "segment": "bigint",
    "content": f"struct<{','.join(f'{name}:{kind}' for name, kind in EVENT_CONTENT.items())}>",
}
"""Events as their records say, or as journal holds them."""
VERDICTS: Shape = {
    **EVENT_KEY,
    "segment": "bigint",
    "verdict": "string",
    "differing": "string",
    "is_foreign": "boolean",
}
"""Events that records and journal do not agree on, each with its verdict (`rules.Verdict`), the
names of what differs, and whether the record at the row's place is known to be another one."""
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
"""What records up to the pointer say of journals.

`said` is the head, null of one that is purged; the rest is of the last life. `is_whole`: all of its
records are there. `begins`: they begin with event 1. `deleted_since`: a delete follows the first
append. `most_delete_to` is the highest seq nr that a delete names; `last_append` is the offset of
the last append, and `last_at` its time; `last_offset` is that of the last record that changes the
journal. `is_in_doubt`: a delete or purge after the pointer may have been done already, or the
records are in several partitions, whose offsets do not compare.
"""
