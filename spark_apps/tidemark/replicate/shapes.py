"""The frames of a replication: what records do, and what comes of it."""

from __future__ import annotations

from tidemark.journals.kafka.tables import JOURNAL_KEY
from tidemark.journals.kafka.wire.shapes import DECODED
from tidemark.journals.kafka.written import EVENT_COLUMNS
from tidemark.spark.shapes import Shape

ACTIONS: Shape = {
    **JOURNAL_KEY,
    "partition": "int",
    "offset": "bigint",
    "action": "string",
    "to": "bigint",
    "first_nr": "bigint",
    "last_nr": "bigint",
    "expire_after": "bigint",
    "origin": "string",
    "bytes": "bigint",
}
"""Appends with the seq nrs of their first and last event, their expiry in nanoseconds and the most
bytes that their rows take, deletes with the seq nr that they delete up to, and purges; each with
its Kafka offset."""
HEAD_FIELDS: Shape = {
    "segment": "bigint",
    "partition": "int",
    "offset": "bigint",
    "segment_size": "int",
    "seq_nr": "bigint",
    "delete_to": "bigint",
    "expire_after": "bigint",
    "expire_on": "date",
    "record_id": "string",
    "origin": "string",
    "is_new": "boolean",
}
HEAD = f"struct<{','.join(f'{name}:{kind}' for name, kind in HEAD_FIELDS.items())}>"
"""A row of metajournal. `is_new`: the row was not there before the actions."""
DELETION = "struct<offset:bigint,first:bigint,last:bigint,up_to:bigint,is_purge:boolean>"
"""Whole segments `first` to `last` of journal; with `up_to`, of the last one only up to this seq
nr. Whatever actions of a lower offset have written is deleted."""
LIFE = "struct<offset:bigint,segment_size:int,record_id:string>"
"""How events of this offset and higher ones are written, until the next life begins."""
HEADS: Shape = {**JOURNAL_KEY, "head": HEAD, "write_time": "bigint"}
"""Heads, each with the newest write time of the journal's heads, in microseconds."""
FOLDED: Shape = {
    **JOURNAL_KEY,
    "partition": "int",
    "before": HEAD,
    "seen": "bigint",
    "head": HEAD,
    "lives": f"array<{LIFE}>",
    "deletions": f"array<{DELETION}>",
    "write_time_before": "bigint",
    "bytes": "bigint",
    "has_moved": "boolean",
}
"""What the actions make of a journal: its head `before` them, with its write time, and after them,
either null if there is none; and the most bytes that the new rows take. `seen` is the offset of the
last action before, null if none was in their partition; `has_moved` tells that one was in another,
or that they are of several."""
JOURNAL_ROWS: Shape = {
    **JOURNAL_KEY,
    **EVENT_COLUMNS,
    "version": "string",
    "tags": "array<string>",
    "metadata": "string",
    "payload_type": "string",
    "payload_txt": "string",
    "payload_bin": "binary",
    "headers": "map<string,string>",
}
"""Rows of journal."""
WRITE_TIME = "write_time"
"""The column of write timestamps, in microseconds."""
BASES: Shape = {"topic": "string", "partition": "int", "write_time_base": "bigint"}
"""What a record's offset is added to for the write time of what it does, by topic partition."""
WRITTEN_ROWS: Shape = {**JOURNAL_ROWS, WRITE_TIME: "bigint"}
CHANGED_HEADS: Shape = {**JOURNAL_KEY, "before": HEAD, "head": HEAD, WRITE_TIME: "bigint"}
"""Heads that are to be written. `before` is null if there was none."""
DELETIONS: Shape = {
    **JOURNAL_KEY,
    "partition": "int",
    "offset": "bigint",
    "first_segment": "bigint",
    "last_segment": "bigint",
    "up_to": "bigint",
    "is_purge": "boolean",
    "head_segment": "bigint",
    "deleted_to": "bigint",
    WRITE_TIME: "bigint",
}
"""What goes, as in the table kafka_journal_deletion; `head_segment` and `deleted_to` are null if no
head goes."""
HELD_FROM: Shape = {
    **JOURNAL_KEY,
    "partition": "int",
    "held_from": "bigint",
    "state": "string",
}
"""The offset of the first record of a key in a partition that is kept back, and in which state."""
HELD: Shape = {
    **JOURNAL_KEY,
    "offset": "bigint",
    "cause": "string",
    "found_at": "timestamp",
}
"""Records in quarantine that keep back later ones of their key."""
STOPPED: Shape = {**DECODED, "state": "string"}
"""Records that go into quarantine, and in which state; with a cause if it is not that of others."""
FATES: Shape = {**DECODED, "fate": "string"}
"""Waiting records whose time has come: `next`, `done` or `held`."""
