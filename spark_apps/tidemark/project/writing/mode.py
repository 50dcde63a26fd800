"""What a mode consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
"""What a query must keep apart, one or the other, to be the same however batches are cut."""
BY_EVENT = (tuple(EVENT_KEY),)
"""The same where a batch has any part of a persistence id's events."""
ANY_KEY = "; for totals over any key, let mode rollup read a projection of mode bucket"
"""The end of `WriteMode.instead`."""


class Guard(Protocol):
    """What keeps other runs off, while this one writes."""

    def check(self) -> None:
        """Raise LockLost if another run may write."""


@dataclass(frozen=True)
class WriteRequest:
    """One result on its way to its target.

    Attributes:
        run: the context of the run.
        claimed: the pieces that it is made from, or the locks of a rollup; checked before each kind
            of write.
        store: what is remembered of the projection.
        time_buckets: those whose events were read.
    """

    run: RunContext
    claimed: Guard
    store: OffsetStore
    time_buckets: Sequence[int]

    @property
    def definition(self) -> Definition:
        """The projection."""
        return self.store.definition


@dataclass(frozen=True)
class Counted:
    """How many rows are stored, of each time bucket where the mode knows it, and what is odd.

    Attributes:
        rows: of the target that are written.
        deleted: those that are deleted, whether they are there or not.
        by_bucket: rows by time bucket; None in modes that do not know it.
        warnings: of checks.
    """

    rows: int
    deleted: int = 0
    by_bucket: Mapping[int, int] | None = None
    warnings: Sequence[Finding] = ()


def any_place(run: RunContext, definition: Definition) -> None:
    """Refuse nothing: the `require_place` of a mode whose target is a table."""


def no_problems(analyzed: AnalyzedDefinition) -> Iterable[str]:
    """Find none: the `column_problems` of a mode that can hold any column."""
    return ()


@dataclass(frozen=True)
class WriteMode:
    """One mode.

    Attributes:
        required: the columns of the event that the result must have, with their types.
        purpose: what the required columns are for that are not part of a table's primary key.
        key_problem: what is wrong with a table's partition key and clustering columns, or None.
        rows_of: the rows to store, made from the result.
        count: counts those rows, which are for a target of that key; raises a TidemarkError if they
            contradict the mode's rules.
        keeps_apart: events that differ in all columns of each of these must not come together in a
            row: whether they are in one batch depends on how runs were cut. Empty if none do.
        instead: what to do about a query that lets them, in a clause.
        store: writes them, with a check of the claim before each kind of write; returns how many.
        transform: makes the result of the events.
        has_table: whether the target is a table.
        column_problems: says which columns no target of the mode can hold.
        require_place: refuses a target that cannot be written; nothing is to refuse of a table.
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
    require_place: Callable[[RunContext, Definition], None] = any_place

    def result_problems(self, analyzed: AnalyzedDefinition) -> Iterator[str]:
        """Return what no target of the mode can hold, a clause each."""
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
    """Return the result as it is: the `rows_of` of a mode that stores it so."""
    return result
