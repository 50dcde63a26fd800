"""What purge deletes from: each kind of data is a target, and plans what a policy would delete."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

from tidemark.application.guarded_change import Apply
from tidemark.errors import TidemarkError


@dataclass(frozen=True)
class Tombstones:
    """The numbers of deletes by kind: a whole partition, a range of its rows, a single row."""

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
        """Return them by name, for reports."""
        return {f"{kind.name}_deleted": getattr(self, kind.name) for kind in fields(self)}


@dataclass(frozen=True)
class TargetPlan:
    """What one policy would delete now.

    Attributes:
        counts: numbers of what goes and of what is kept, by name.
        lines: text for people, one fact per line: what goes, and why the rest stays.
        tombstones: the deletes that `apply` would make; of expired journals those that `replicate`
            makes when it comes to their Purge records.
        digest: `digest` of all keys that it would delete: two plans with the same one are the same.
        locks: the resources that must be locked while it is planned again and applied.
        apply: makes the deletes, whole partitions first where it can; None if there is nothing to
            delete. It may stop anywhere and be run again, and what it leaves half-deleted does not
            read as whole.
        save: writes a copy of what goes to a directory of its own, as Parquet, before `apply`; None
            if nothing can.
        error: as of `guarded_change.Plan`.
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


def digest(keys: Iterable[object]) -> str:
    """Return a hash over keys in their order, each as Python writes it."""
    hashed = hashlib.sha256()
    for key in keys:
        hashed.update(f"{key!r}\n".encode())
    return hashed.hexdigest()
