"""The targets of purge: each kind of data plans what a policy would delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields

from tidemark.application.guarded_change import Apply
from tidemark.errors import TidemarkError


@dataclass(frozen=True)
class Tombstones:
    """The numbers of deletes by kind: whole partition, range of rows, single row."""

    partitions: int = 0
    ranges: int = 0
    rows: int = 0

    def __add__(self, other: Tombstones) -> Tombstones:
        return Tombstones(
            *(getattr(self, kind.name) + getattr(other, kind.name) for kind in fields(self))
        )

    @property
    def total(self) -> int:
        """The number of all deletes."""
        return self.partitions + self.ranges + self.rows

    def counts(self) -> dict[str, int]:
        """Return the numbers by name, for reports."""
        return {f"{kind.name}_deleted": getattr(self, kind.name) for kind in fields(self)}


@dataclass(frozen=True)
class TargetPlan:
    """What one policy would delete now.

    Attributes:
        counts: numbers of deleted and of kept things, by name.
        lines: text for people, one fact per line: what is deleted, and why the rest is kept.
        tombstones: the deletes that `apply` would make; for expired journals those that `replicate`
            makes when it reads their Purge records.
        digest: `digest` of all keys to delete: plans with the same digest are the same.
        locks: the resources that must be locked while it is planned again and applied.
        apply: makes the deletes, whole partitions first where it can; None if there is nothing to
            delete. It may stop anywhere and be run again; half-deleted data never reads as
            complete.
        save: writes a copy of the rows to delete to a directory of its own, as Parquet, before
            `apply`; None if the target cannot be saved.
        error: see `guarded_change.Plan`.
    """

    counts: Mapping[str, int]
    lines: Sequence[str]
    tombstones: Tombstones
    digest: str
    locks: Sequence[str]
    apply: Apply | None
    details: Mapping[str, object] = field(default_factory=dict)
    save: Callable[[str], None] | None = None
    error: TidemarkError | None = None
