"""Stores the numbers that the held pieces of a projection wait for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Row

from tidemark import clock
from tidemark.journals.pekko.series import numbers, series_name
from tidemark.partitioning.keys import SliceRange, slice_of
from tidemark.project.offset_store.offsets import OffsetStore

_TABLE = "projection_gap"
_KEY = ("persistence_id", "tag", "first_number")


@dataclass(frozen=True, order=True)
class Missing:
    """A range of missing numbers of a series; both ends inclusive."""

    persistence_id: str
    tag: str
    first: int
    last: int

    def __str__(self) -> str:
        """Return the text for reports: `p|1 red 4..6`."""
        return f"{series_name(self.persistence_id, self.tag)} {numbers(self.first, self.last)}"


def read(store: OffsetStore, time_buckets: Sequence[int]) -> dict[int, list[Missing]]:
    """Read the numbers that time buckets wait for, leaving out buckets that wait for none."""
    rows_by_bucket = store.control.execute_many(
        "SELECT persistence_id, tag, first_number, last_number FROM"
        f" {store.table(_TABLE)} WHERE projection = ? AND time_bucket = ?",
        [(store.subject, bucket) for bucket in time_buckets],
    )
    return {
        bucket: [
            Missing(row["persistence_id"], row["tag"], row["first_number"], row["last_number"])
            for row in rows
        ]
        for bucket, rows in zip(time_buckets, rows_by_bucket, strict=True)
        if rows
    }


def replace(
    store: OffsetStore, slices: SliceRange, former: Sequence[int], rows: Iterable[Row]
) -> None:
    """Write the numbers missing now, and delete those that are no longer missing.

    `rows` is the result of `gaps.missing`; `former` are the processed time buckets that may have
    rows. Rows of other slices than `slices` stay.
    """
    name, now = store.table(_TABLE), clock.now()
    new = {
        (row.time_bucket, row.persistence_id, row.tag, row.first_number): row.last_number
        for row in rows
    }
    obsolete = [
        key
        for bucket, stored in read(store, former).items()
        for missing in stored
        if slices.first <= slice_of(missing.persistence_id) <= slices.last
        and (key := (bucket, missing.persistence_id, missing.tag, missing.first)) not in new
    ]
    conditions = " AND ".join(f"{row_key} = ?" for row_key in _KEY)
    store.control.execute_many(
        f"DELETE FROM {name} WHERE projection = ? AND time_bucket = ? AND {conditions}",
        [(store.subject, *row_key) for row_key in obsolete],
    )
    store.control.execute_many(
        f"INSERT INTO {name} (projection, time_bucket, {', '.join(_KEY)}, last_number, found_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(store.subject, *row_key, last, now) for row_key, last in new.items()],
    )


def forget(store: OffsetStore, time_buckets: Collection[int]) -> None:
    """Delete the missing numbers of some time buckets."""
    store.control.execute_many(
        f"DELETE FROM {store.table(_TABLE)} WHERE projection = ? AND time_bucket = ?",
        [(store.subject, bucket) for bucket in time_buckets],
    )
