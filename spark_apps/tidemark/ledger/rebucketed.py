"""Ledger entries of the present bucket size, derived from pieces of other sizes. No I/O.

Tag views that were copied into a table of another bucket size have a new ledger. The old ledger
stays valid: time that is done there is done, and pieces that are open there must not be lost
because their time now belongs to other time buckets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from tidemark.ledger.piece import PieceRow, Reason, State
from tidemark.partitioning.keys import BucketSize

_NEVER = datetime.min


def with_other_sizes(
    own: Sequence[PieceRow], others: Mapping[BucketSize, Sequence[PieceRow]], size: BucketSize
) -> list[PieceRow]:
    """Return the entries of one bucket size, with those derived from other sizes, ascending.

    A derived entry is DONE if done pieces cover all of its time bucket; otherwise it is FAILED, so
    that a run plans it. Where two other sizes cover the time bucket, the size touched last counts.
    An entry in `own` takes precedence unless, after it was done, work on its time bucket began in
    another size and has not ended. `own` are the rows of the present bucket size.
    """
    by_bucket = {entry.time_bucket: entry for entry in own}
    by_other_sizes: dict[int, PieceRow] = {}
    for other, entries in others.items():
        for bucket, overlapping in _by_bucket(entries, other, size).items():
            rolled_up = _rolled_up(bucket, overlapping, other, size)
            if bucket not in by_other_sizes or _last_touched(
                [by_other_sizes[bucket]]
            ) < _last_touched([rolled_up]):
                by_other_sizes[bucket] = rolled_up
    for bucket, rolled_up in by_other_sizes.items():
        own_row = by_bucket.get(bucket)
        if own_row is None:
            by_bucket[bucket] = rolled_up
        elif _was_opened_since(own_row, rolled_up):
            by_bucket[bucket] = replace(
                own_row,
                state=rolled_up.state,
                reason=rolled_up.reason,
                error=rolled_up.error,
            )
    return [by_bucket[bucket] for bucket in sorted(by_bucket)]


def _by_bucket(
    entries: Iterable[PieceRow], other: BucketSize, size: BucketSize
) -> dict[int, list[PieceRow]]:
    """Return the entries that overlap each time bucket of `size`, by time bucket (epoch ms)."""
    width = size.milliseconds
    overlapping: dict[int, list[PieceRow]] = defaultdict(list)
    for entry in entries:
        start = entry.time_bucket - entry.time_bucket % width
        for bucket in range(start, entry.time_bucket + other.milliseconds, width):
            overlapping[bucket].append(entry)
    return overlapping


def _rolled_up(
    bucket: int, overlapping: Sequence[PieceRow], other: BucketSize, size: BucketSize
) -> PieceRow:
    """Derive the entry of a time bucket from the pieces of another size that overlap it."""
    needed = max(size.milliseconds // other.milliseconds, 1)
    versions = {entry.definition_version for entry in overlapping}
    touched = _last_touched(overlapping)
    still_open = [entry for entry in overlapping if entry.state is not State.DONE]
    if not still_open and len(overlapping) == needed:
        ends = [entry.finished_at for entry in overlapping if entry.finished_at is not None]
        # "several" matches no version of the definition, so the whole time bucket is done again.
        return PieceRow(
            bucket,
            State.DONE,
            0,
            definition_version=versions.pop() if len(versions) == 1 else "several",
            finished_at=min(ends, default=None),
            touched_at=touched,
        )
    done = len(overlapping) - len(still_open)
    error = f"{done:,} of {needed:,} {other.value} buckets of this time are done" + (
        f"; one is {still_open[0].state}: {still_open[0].error or 'not ended'}"
        if still_open
        else ""
    )
    return PieceRow(
        bucket, State.FAILED, 0, error=error, reason=Reason.REBUCKETED, touched_at=touched
    )


def _was_opened_since(own_row: PieceRow, rolled_up: PieceRow) -> bool:
    """Return whether work began in another bucket size after `own_row` was done, and is open."""
    return (
        own_row.state is State.DONE
        and rolled_up.state is not State.DONE
        and (own_row.finished_at or _NEVER) < _last_touched([rolled_up])
    )


def _last_touched(entries: Iterable[PieceRow]) -> datetime:
    return max((entry.touched_at or _NEVER for entry in entries), default=_NEVER)
