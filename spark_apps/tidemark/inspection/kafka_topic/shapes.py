"""The frames of a comparison of topics with tables."""

from __future__ import annotations

from tidemark.kafka_journal.tables import JOURNAL_KEY
from tidemark.replication.shapes import HEAD
from tidemark.spark.shapes import Shape

BOUNDS: Shape = {
    "topic": "string",
    "partition": "int",
    "first": "bigint",
    "last": "bigint",
    "pointer": "bigint",
}
"""Of a topic partition: the offsets that are judged, both ends included, and the last one that is
replicated."""
EVENT_CONTENT: Shape = {
    "timestamp": "timestamp",
    "payload": "bigint",
    "tags": "bigint",
    "metadata": "bigint",
    "headers": "bigint",
    "origin": "string",
    "version": "string",
}
"""What is compared of an event, in the order in which it is named; long parts by their hash."""
EVENTS: Shape = {
    **JOURNAL_KEY,
    "partition": "int",
    "offset": "bigint",
    "seq_nr": "bigint",
    "segment": "bigint",
    "content": f"struct<{','.join(f'{name}:{kind}' for name, kind in EVENT_CONTENT.items())}>",
}
"""Events as their records say, or as journal holds them."""
JOURNALS: Shape = {
    **JOURNAL_KEY,
    "partition": "int",
    "said": HEAD,
    "has_append": "boolean",
    "is_whole": "boolean",
    "knows_delete_to": "boolean",
    "most_delete_to": "bigint",
    "last_append": "bigint",
    "last_at": "timestamp",
    "is_in_flight": "boolean",
}
"""What records up to the pointer say of journals.

`said` is the head, null of one that is purged; the rest is of the last life: `is_whole` if its
first record is among them; `most_delete_to` is the highest seq nr that a delete names;
`last_append` is the offset of the last append, and `last_at` its time. `is_in_flight`: a delete or
purge behind the pointer may have been done already.
"""
