"""What the result of each time bucket was made from, of modes that replace a bucket as a whole.

How many events that were is written before the result is: whatever becomes of the run, the next one
knows how many must still be there. Those whose offsets may not be stored yet are `unsure`; to the
next run they are either consumed or new.
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
    """What a time bucket's result was made from.

    Attributes:
        events: how many there were.
        unsure: how many of them may not have their offsets stored.
        version: the fingerprint of the definition; empty while the result is being written.
    """

    events: int
    unsure: int
    version: str


def read(store: OffsetStore, time_buckets: Collection[int]) -> dict[int, BucketOrigin]:
    """Read what the results of time buckets were made from, for the same source and target."""
    if not time_buckets:
        return {}
    rows = store.control.execute(
        "SELECT time_bucket, events, unsure, made_of, definition_version"
        f" FROM {store.table(_TABLE)}"
        " WHERE projection = ? AND bucket_size = ? AND time_bucket >= ? AND time_bucket <= ?",
        (store.subject, store.bucket_size, min(time_buckets), max(time_buckets)),
    )
    wanted = set(time_buckets)
    return {
        row["time_bucket"]: BucketOrigin(row["events"], row["unsure"], row["definition_version"])
        for row in rows
        if row["time_bucket"] in wanted and row["made_of"] == _made_of(store.definition)
    }


def note(store: OffsetStore, made: Mapping[int, BucketOrigin]) -> None:
    """Write what results are made from, before a result is written and again with its offsets."""
    if not made:
        return
    size = store.bucket_size
    # A clock that goes back must not hide it behind an older row.
    write_time = management_state.next_write_time(store)
    made_of = _made_of(store.definition)
    rows = [
        (
            store.subject,
            size,
            bucket,
            made_of_bucket.events,
            made_of_bucket.unsure,
            made_of,
            made_of_bucket.version,
            write_time,
        )
        for bucket, made_of_bucket in made.items()
    ]
    store.control.execute_batches(
        f"INSERT INTO {store.table(_TABLE)}"
        " (projection, bucket_size, time_bucket, events, unsure, made_of, definition_version)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?",
        (rows[first : first + _TOGETHER] for first in range(0, len(rows), _TOGETHER)),
    )


def unsettle(store: OffsetStore, time_buckets: Collection[int]) -> None:
    """Forget which events were sure, before offsets go back: all events may be new again."""
    if store.definition.mode.replaces_buckets:
        known = read(store, time_buckets)
        note(store, {bucket: replace(made, unsure=made.events) for bucket, made in known.items()})


def forget(store: OffsetStore) -> None:
    """Delete the records of a target that is dropped."""
    store.control.execute_many(
        f"DELETE FROM {store.table(_TABLE)} WHERE projection = ? AND bucket_size = ?",
        [(store.subject, size) for size in BucketSize],
    )


def _made_of(definition: Definition) -> str:
    """Return a hash that differs for results whose events are not comparable."""
    text = repr((definition.source, definition.target))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
