"""Finds late rows of the tag views that a projection has not consumed yet."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

from tidemark.cassandra.schema import table
from tidemark.journals.pekko.series import Series
from tidemark.project.offset_store.offsets import OffsetStore

_TABLE = "late_tag_rows"
_AT_ONCE = 10_000
"""Offsets that are read at a time."""


def unconsumed(store: OffsetStore, done: Collection[int]) -> set[int]:
    """Return the time buckets among `done` with a row after the projection's offsets.

    Reads only the few partitions into which tag-write has written late rows. The projection reads
    tag views; `done` are its done time buckets, epoch ms.
    """
    late_partitions = store.control.execute(
        f"SELECT time_bucket, tag FROM {store.table(_TABLE)}"
        " WHERE journal_keyspace = ? AND bucket_size = ?",
        (store.settings.journal_keyspace, store.settings.bucket_size.value),
    )
    return {
        row["time_bucket"]
        for row in late_partitions
        if row["tag"] in store.definition.source.series_tags
        and row["time_bucket"] in done
        and _has_unconsumed(store, row["tag"], row["time_bucket"])
    }


def _has_unconsumed(store: OffsetStore, tag: str, time_bucket: int) -> bool:
    highest: dict[str, int] = {}
    for row in store.control.stream(
        "SELECT persistence_id, tag_pid_sequence_nr FROM"
        f" {table(store.settings.journal_keyspace, store.settings.events_by_tag_table)}"
        " WHERE tag_name = ? AND timebucket = ?",
        (tag, time_bucket),
    ):
        number = max(highest.get(row["persistence_id"], 0), row["tag_pid_sequence_nr"])
        highest[row["persistence_id"]] = number
    ids = iter(highest.items())
    while chunk := list(islice(ids, _AT_ONCE)):
        offsets = store.offsets_of([Series(persistence_id, tag) for persistence_id, _ in chunk])
        for (_, number), offset in zip(chunk, offsets, strict=True):
            if offset is None or offset.number < number:
                return True
    return False
