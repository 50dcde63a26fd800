"""Records the work on slice ranges of time buckets, and derives the state of each bucket."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidemark import clock
from tidemark.ledger.piece import Piece, PieceRow, State
from tidemark.ledger.rollup import PieceRollup
from tidemark.partitioning import slice_ranges as slices
from tidemark.partitioning.keys import SliceRange
from tidemark.project.offset_store.offsets import OffsetStore

_TABLE = "projection_slices"


@dataclass(frozen=True)
class SlicePart:
    """The result of work on a range of slices of one time bucket.

    It counts as long as the piece has this attempt and the definition this version.
    """

    time_bucket: int
    slices: SliceRange
    attempt: int
    version: str
    state: State
    counts: Mapping[str, int]
    error: str | None
    finished_at: datetime


def read(store: OffsetStore, time_buckets: Iterable[int]) -> list[SlicePart]:
    """Read all parts of some time buckets, including outdated parts."""
    rows_by_bucket = store.control.execute_many(
        "SELECT time_bucket, first_slice, last_slice, attempt, definition_version, state, counts,"
        f" error, finished_at FROM {store.table(_TABLE)}"
        " WHERE projection = ? AND bucket_size = ? AND time_bucket = ?",
        [(store.subject, store.bucket_size, time_bucket) for time_bucket in time_buckets],
    )
    return [
        SlicePart(
            row["time_bucket"],
            SliceRange(row["first_slice"], row["last_slice"]),
            row["attempt"],
            row["definition_version"],
            State(row["state"]),
            dict(row["counts"] or {}),
            row["error"],
            row["finished_at"],
        )
        for rows in rows_by_bucket
        for row in rows
    ]


def record(
    store: OffsetStore,
    parts: Sequence[SlicePart],
    *,
    owner: str,
    run_id: str,
) -> None:
    """Write how work on some ranges ended, after their results and offsets."""
    store.control.execute_many(
        f"INSERT INTO {store.table(_TABLE)} (projection, bucket_size, time_bucket,"
        " first_slice, last_slice, attempt, definition_version, state, counts, error, owner,"
        " run_id, finished_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                store.subject,
                store.bucket_size,
                part.time_bucket,
                part.slices.first,
                part.slices.last,
                part.attempt,
                part.version,
                part.state,
                dict(part.counts),
                part.error,
                owner,
                run_id,
                part.finished_at,
            )
            for part in parts
        ],
    )


def forget(store: OffsetStore, parts: Iterable[SlicePart]) -> None:
    """Delete parts whose slices are to be processed again."""
    store.control.execute_many(
        f"DELETE FROM {store.table(_TABLE)} WHERE projection = ? AND bucket_size = ?"
        " AND time_bucket = ? AND first_slice = ? AND last_slice = ?",
        [(store.subject, store.bucket_size, part.time_bucket, *part.slices) for part in parts],
    )


def forget_buckets(store: OffsetStore, time_buckets: Collection[int]) -> None:
    """Delete all parts of time buckets that are done or are to be processed again."""
    store.control.execute_many(
        f"DELETE FROM {store.table(_TABLE)} WHERE projection = ? AND bucket_size = ?"
        " AND time_bucket = ?",
        [(store.subject, store.bucket_size, time_bucket) for time_bucket in time_buckets],
    )


def counting(
    parts: Iterable[SlicePart], entries: Mapping[int, PieceRow], version: str
) -> dict[int, list[SlicePart]]:
    """Return the parts that count, by time bucket; `entries` are from the ledger."""
    by_bucket: dict[int, list[SlicePart]] = {}
    for part in parts:
        entry = entries.get(part.time_bucket)
        if entry is None or not is_open(entry, version):
            continue
        if (part.attempt, part.version) == (entry.attempt, version):
            by_bucket.setdefault(part.time_bucket, []).append(part)
    return by_bucket


def is_open(entry: PieceRow, version: str) -> bool:
    """Return whether this version of the definition may process parts of the piece."""
    return entry.state is not State.DONE and entry.definition_version == version


def done(parts: Mapping[int, Sequence[SlicePart]]) -> dict[int, list[SliceRange]]:
    """Return the ranges that are done, by time bucket."""
    return {
        bucket: [part.slices for part in bucket_parts if part.state is State.DONE]
        for bucket, bucket_parts in parts.items()
    }


def rolled_up_state(piece: Piece, parts: Sequence[SlicePart]) -> PieceRollup:
    """Derive the state of a piece from its parts: done if all slices are.

    Otherwise it has the state of the part that failed or was held last; without one, it is planned.
    """
    finished = [part for part in parts if part.state is State.DONE]
    ranges = [part.slices for part in finished]
    problems = [
        part
        for part in parts
        if part.state is not State.DONE and slices.missing(part.slices, ranges)
    ]
    state, error = State.PLANNED, None
    if not slices.missing(slices.ALL, ranges):
        state = State.DONE
    elif problems:
        last = max(problems, key=lambda part: part.finished_at)
        state, error = last.state, f"slices {slices.text(last.slices)}: {last.error}"
    counts: Counter[str] = Counter()
    for part in [*finished, *problems]:
        counts.update(part.counts)
    return PieceRollup(piece.time_bucket, piece.attempt, state, counts, error)


def now() -> datetime:
    """Return the present time, naive UTC, for `SlicePart.finished_at`."""
    return clock.now().replace(tzinfo=None)
