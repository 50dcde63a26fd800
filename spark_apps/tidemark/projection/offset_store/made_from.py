"""What the result of each time bucket was made from, of modes that replace a bucket as a whole.

How many events that were is written before the result is: whatever becomes of the run, the next one
knows how many must still be there. Those whose offsets may not be stored yet are `unsure`; to the
next run they are either consumed or new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.partitioning.keys import BucketSize
from tidemark.projection.definition.model import Definition
from tidemark.projection.offset_store import write_times

_TABLE = "projection_bucket"
_TOGETHER = 100


@dataclass(frozen=True)
class Made:
    """What a time bucket's result was made from.

    Attributes:
        events: how many there were.
        unsure: how many of them may not have their offsets stored.
        version: the fingerprint of the definition; empty while the result is being written.
    """

    events: int
    unsure: int
    version: str


def read(run: RunContext, definition: Definition, time_buckets: Collection[int]) -> dict[int, Made]:
    """Of those time buckets that have a result, made from the same source into the same target."""
    if not time_buckets:
        return {}
    rows = run.control.execute(
        "SELECT time_bucket, events, unsure, made_of, definition_version"
        f" FROM {table(run.settings.keyspace, _TABLE)}"
        " WHERE projection = ? AND bucket_size = ? AND time_bucket >= ? AND time_bucket <= ?",
        (*_key(run, definition), min(time_buckets), max(time_buckets)),
    )
    wanted = set(time_buckets)
    return {
        row["time_bucket"]: Made(row["events"], row["unsure"], row["definition_version"])
        for row in rows
        if row["time_bucket"] in wanted and row["made_of"] == _made_of(definition)
    }


def note(run: RunContext, definition: Definition, made: Mapping[int, Made]) -> None:
    """Write it, before the result is written and again when the offsets are."""
    if not made:
        return
    subject, size = _key(run, definition)
    # A clock that goes back must not hide it behind an older row.
    write_time = write_times.next_write_time(run.control, run.settings, subject)
    made_of = _made_of(definition)
    rows = [
        (subject, size, bucket, one.events, one.unsure, made_of, one.version, write_time)
        for bucket, one in made.items()
    ]
    run.control.execute_batches(
        f"INSERT INTO {table(run.settings.keyspace, _TABLE)}"
        " (projection, bucket_size, time_bucket, events, unsure, made_of, definition_version)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?",
        (rows[first : first + _TOGETHER] for first in range(0, len(rows), _TOGETHER)),
    )


def unsettle(run: RunContext, definition: Definition, time_buckets: Collection[int]) -> None:
    """Before offsets go back: all events of those time buckets may be new again."""
    if definition.mode.replaces_buckets:
        known = read(run, definition, time_buckets)
        note(
            run, definition, {each: replace(one, unsure=one.events) for each, one in known.items()}
        )


def forget(run: RunContext, definition: Definition) -> None:
    """With the target."""
    subject, _ = _key(run, definition)
    run.control.execute_many(
        f"DELETE FROM {table(run.settings.keyspace, _TABLE)}"
        " WHERE projection = ? AND bucket_size = ?",
        [(subject, size) for size in BucketSize],
    )


def _key(run: RunContext, definition: Definition) -> tuple[str, str]:
    return definition.subject(run.settings.journal_keyspace), str(run.settings.bucket_size)


def _made_of(definition: Definition) -> str:
    """Tells results apart whose events are not comparable."""
    text = repr((definition.source, definition.target))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
