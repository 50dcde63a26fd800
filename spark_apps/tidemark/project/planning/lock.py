"""The lock of a projection or of some of its slices, for runs and for changes by hand."""

from __future__ import annotations

from tidemark.context import RunContext
from tidemark.ledger.applications import PROJECT
from tidemark.ledger.locks import Locks
from tidemark.partitioning import slice_ranges
from tidemark.partitioning.keys import SliceRange
from tidemark.project.definition.model import Definition


def resource_of(run: RunContext, definition: Definition) -> str:
    """Return the name of a projection's lock; each blue/green version has its own."""
    return f"{PROJECT}/{definition.subject(run.settings.journal_keyspace)}"


def lock_of(
    run: RunContext, definition: Definition, slices: SliceRange = slice_ranges.ALL
) -> Locks:
    """Return the locks of some slices; the lock of all slices excludes every other."""
    return Locks.of(run, slice_ranges.locked(slices, resource_of(run, definition)))
