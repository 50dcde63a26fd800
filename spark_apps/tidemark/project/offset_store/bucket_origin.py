"""Origins of results: how many events the result of each time bucket was made from.

Only for modes that replace complete time buckets. The number is written before the result, so that
the next run knows how many events must still exist, even after a crash. Events whose offsets may
not be stored yet are `unsure`: to the next run they are either consumed or new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tidemark.partitioning.keys import BucketSize
from tidemark.project.definition.model import Definition
from tidemark.project.offset_store import management_state
from tidemark.project.offset_store.offsets import OffsetStore

_TABLE = "projection_bucket"
_TOGETHER = 100


@dataclass(frozen=True)
class BucketOrigin:
    """The events that a time bucket's result was made from.

    Attributes:
        events: number of events.
        unsure: number of those whose offsets may not be stored yet.
        version: the fingerprint of the definition; empty while the result is being written.
    """

    events: int
    unsure: int
    version: str


def read(store: OffsetStore, time_buckets: Collection[int]) -> dict[int, BucketOrigin]:
    """Read the origins of time buckets whose results had the present source and target."""
    if not time_buckets:
        return {}
    rows = store.control.execute(
        "SELECT time_bucket, events, unsure, made_of, definition_version"
        f" FROM {store.table(_TABLE)}"
        " WHERE projection = ? AND bucket_size = ? AND time_bucket >= ? AND time_bucket <= ?",
        (store.subject, store.bucket_size, min(time_buckets), max(time_buckets)),
    )
    requested = set(time_buckets)
    return {
        row["time_bucket"]: BucketOrigin(row["events"], row["unsure"], row["definition_version"])
        for row in rows
        if row["time_bucket"] in requested and row["made_of"] == _made_of(store.definition)
    }


def note(store: OffsetStore, origins: Mapping[int, BucketOrigin]) -> None:
    """Write origins, before the result is written and again with its offsets."""
    if not origins:
        return
    size = store.bucket_size
    # After a clock is set back, older rows must not win.
    write_time = management_state.next_write_time(store)
    made_of = _made_of(store.definition)
    rows = [
        (
            store.subject,
            size,
            bucket,
            origin.events,
            origin.unsure,
            made_of,
            origin.version,
            write_time,
        )
        for bucket, origin in origins.items()
    ]
    store.control.execute_batches(
        f"INSERT INTO {store.table(_TABLE)}"
        " (projection, bucket_size, time_bucket, events, unsure, made_of, definition_version)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?",
        (rows[first : first + _TOGETHER] for first in range(0, len(rows), _TOGETHER)),
    )


def unsettle(store: OffsetStore, time_buckets: Collection[int]) -> None:
    """Mark all events as unsure, before offsets are moved back: they may be new again."""
    if store.definition.mode.replaces_buckets:
        origins = read(store, time_buckets).items()
        note(store, {bucket: replace(origin, unsure=origin.events) for bucket, origin in origins})


def forget(store: OffsetStore) -> None:
    """Delete the origins of a target that is dropped."""
    store.control.execute_many(
        f"DELETE FROM {store.table(_TABLE)} WHERE projection = ? AND bucket_size = ?",
        [(store.subject, size) for size in BucketSize],
    )


def _made_of(definition: Definition) -> str:
    """Return a hash of source and target; only counts with the same hash are comparable."""
    text = repr((definition.source, definition.target))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
