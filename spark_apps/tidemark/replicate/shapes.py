"""The frames of a replication: the actions of records, and their results."""

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
"""Appends with the seq nrs of their first and last event, their expiry in nanoseconds and an upper
bound of the bytes of their rows; deletes with the seq nr that they delete up to; purges; each with
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
"""A row of metajournal. `is_new`: the row did not exist before the actions."""
DELETION = "struct<offset:bigint,first:bigint,last:bigint,up_to:bigint,is_purge:boolean>"
"""Whole segments `first` to `last` of journal; with `up_to`, the last one only up to this seq nr.
Everything that actions of a lower offset have written there is deleted."""
LIFE = "struct<offset:bigint,segment_size:int,record_id:string>"
"""How events from this offset on are written, until the next life begins."""
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
"""The result of the actions on a journal: its head `before` them, with its write time, and after
them, either null if there is none; and an upper bound of the bytes of the new rows. `seen` is the
offset of the last action before, null if none was in their partition; `has_moved` means that it was
in another, or that the actions are of several."""
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
"""By topic partition; added to a record's offset it gives the write time of its changes."""
WRITTEN_ROWS: Shape = {**JOURNAL_ROWS, WRITE_TIME: "bigint"}
CHANGED_HEADS: Shape = {**JOURNAL_KEY, "before": HEAD, "head": HEAD, WRITE_TIME: "bigint"}
"""Heads to write. `before` is null if there was none."""
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
"""Deletions, as in the table kafka_journal_deletion; `head_segment` and `deleted_to` are null if no
head is deleted."""
HELD_FROM: Shape = {
    **JOURNAL_KEY,
    "partition": "int",
    "held_from": "bigint",
    "state": "string",
}
"""The offset of the first record of a key in a partition that is kept back, and its state."""
HELD: Shape = {
    **JOURNAL_KEY,
    "offset": "bigint",
    "cause": "string",
    "found_at": "timestamp",
}
"""Records in quarantine that keep back later ones of their key."""
STOPPED: Shape = {**DECODED, "state": "string"}
"""Records to quarantine, with their state; without a cause if an earlier record holds them."""
FATES: Shape = {**DECODED, "fate": "string"}
"""Waiting records that leave the queue: `next`, `done` or `held`."""
