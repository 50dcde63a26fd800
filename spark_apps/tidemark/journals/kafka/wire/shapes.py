"""The frames of records, before and after they are decoded."""

from __future__ import annotations

from tidemark.spark.shapes import Shape

PLACE: Shape = {"topic": "string", "partition": "int", "offset": "bigint"}
"""The position of a record in Kafka."""
RECORDS: Shape = {
    **PLACE,
    "timestamp": "timestamp",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
}
"""Records as Spark's Kafka source reads them with their headers."""
EVENT = (
    "struct<seq_nr:bigint,tags:array<string>,payload_type:string,payload_txt:string,"
    "payload_bin:binary>"
)
DECODED: Shape = {
    **PLACE,
    "timestamp": "timestamp",
    "id": "string",
    "action": "string",
    "to": "bigint",
    "origin": "string",
    "version": "string",
    "metadata": "string",
    "expire_after": "bigint",
    "headers": "map<string,string>",
    "events": f"array<{EVENT}>",
    "cause": "string",
}
"""Decoded records; of an append all columns but `to` may be set, of a delete `to` is.

`expire_after` is in nanoseconds. `action` is null in a record that kafka-journal ignores, and in a
record at which it stops, which has a `cause` and the `id` of its key.
"""
