"""The interface of a mode of storing results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from tidemark.context import RunContext
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.definition.model import Definition
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.transformation.result import Transform, by_query
from tidemark.project.transformation.result_checks import Finding
from tidemark.project.transformation.row_key import RowKey

EVENT_KEY: Mapping[str, T.DataType] = {
    "persistence_id": T.StringType(),
    "sequence_nr": T.LongType(),
}
BY_BUCKET = (("time_bucket",), tuple(EVENT_KEY))
"""Sets of columns: grouping by all columns of a set makes a result independent of batches."""
BY_EVENT = (tuple(EVENT_KEY),)
"""The same for modes in which a batch has any part of a persistence id's events."""
ANY_KEY = "; for totals over any key, let mode rollup read a projection of mode bucket"
"""The end of `WriteMode.instead`."""


class Guard(Protocol):
    """Keeps other runs from writing while this run writes."""

    def check(self) -> None:
        """Raise LockLost if another run may write."""


@dataclass(frozen=True)
class WriteRequest:
    """A request to write a result.

    Attributes:
        claimed: pieces of the result, or the locks of a rollup; checked before each kind of write.
        time_buckets: time buckets whose events were read.
    """

    run: RunContext
    claimed: Guard
    store: OffsetStore
    time_buckets: Sequence[int]

    @property
    def definition(self) -> Definition:
        """The projection."""
        return self.store.definition


class ResultWriter(Protocol):
    """Stores the result of a batch, and then its offsets."""

    def store(self, request: WriteRequest, rows: DataFrame, counted: Counted) -> Counted:
        """Write the rows of `WriteMode.rows_of`; return the numbers of rows.

        Raises:
            LockLost: another run may write.
        """

    def write_offsets(self, rows: DataFrame, now: datetime) -> None:
        """Write the offsets of shape MOVED_OFFSETS, after the result."""


@dataclass(frozen=True)
class Counted:
    """The numbers of rows that are written and deleted.

    Attributes:
        rows: rows to write.
        deleted: rows to delete, whether or not they exist.
        by_bucket: rows to write by time bucket; None in modes that do not count by time bucket.
        warnings: checks that fail and only warn.
    """

    rows: int
    deleted: int = 0
    by_bucket: Mapping[int, int] | None = None
    warnings: Sequence[Finding] = ()


def any_place(run: RunContext, analyzed: AnalyzedDefinition) -> None:
    """Accept every target: the `require_place` of a mode whose target is a table."""


def no_problems(analyzed: AnalyzedDefinition) -> Iterable[str]:
    """Return no problems: the `column_problems` of a mode that can store any column."""
    return ()


@dataclass(frozen=True)
class WriteMode:
    """A mode of storing results.

    Attributes:
        required: columns of the event that the result must have, with their types.
        purpose: purpose of required columns that are not in the table's primary key, as a clause.
        key_problem: returns the problem of a table's partition key and clustering columns, or None.
        rows_of: turns the result into the rows to store.
        count: counts these rows for a target with this key; raises a TidemarkError if they break
            the mode's rules.
        keeps_apart: sets of columns; a step that combines events must keep the columns of one set,
            because batches may divide other events differently. Empty if all steps are allowed.
        instead: remedy for a query that combines other events, as a clause.
        store: writes the rows, with a check of the claim before each kind of write; returns counts.
        transform: turns events into the result.
        has_table: whether the target is a table.
        column_problems: returns the problems of columns that no target of the mode can store.
        require_place: rejects a target, other than a table, that the result cannot be written to.
    """

    required: Mapping[str, T.DataType]
    purpose: str
    key_problem: Callable[[Sequence[str], Sequence[str]], str | None]
    rows_of: Callable[[DataFrame, Definition], DataFrame]
    count: Callable[[DataFrame, Definition, RowKey, Sequence[int]], Counted]
    store: Callable[[WriteRequest, DataFrame, Counted], Counted]
    keeps_apart: Sequence[Sequence[str]] = ()
    instead: str = ""
    transform: Transform = by_query
    has_table: bool = True
    column_problems: Callable[[AnalyzedDefinition], Iterable[str]] = no_problems
    require_place: Callable[[RunContext, AnalyzedDefinition], None] = any_place

    def result_problems(self, analyzed: AnalyzedDefinition) -> Iterator[str]:
        """Return a clause for each problem that the result has with any target of the mode."""
        yield from self.column_problems(analyzed)
        combining = sorted(
            {
                step.name
                for step in analyzed.combining
                if not any(step.keeps.issuperset(key) for key in self.keeps_apart)
            }
        )
        if self.keeps_apart and combining:
            ways = " or ".join(", ".join(key) for key in self.keeps_apart)
            yield (
                f"{analyzed.definition.body} combines events ({', '.join(combining)}) that one run"
                f" may read together and another may not; let it group, partition or join by {ways}"
                f" too{self.instead}"
            )


def as_selected(result: DataFrame, definition: Definition) -> DataFrame:
    """Return the result unchanged: the `rows_of` of a mode that stores it so."""
    return result
