"""What a mode consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from tidemark.context import RunContext
from tidemark.ledger.claim import Claim
from tidemark.projection.analysis.analyze import AnalyzedDefinition
from tidemark.projection.definition.model import Definition
from tidemark.projection.offset_store.offsets import OffsetStore
from tidemark.projection.transformation.result import Transform, by_query
from tidemark.projection.transformation.result_checks import Finding

EVENT_KEY: Mapping[str, T.DataType] = {
    "persistence_id": T.StringType(),
    "sequence_nr": T.LongType(),
}
ONE_ROW = "select the events' own persistence_id and sequence_nr, one row for each event"
"""What to do about a result that does not have the event's key."""


@dataclass(frozen=True)
class WriteRequest:
    """One result on its way to its target.

    Attributes:
        run: the context of the run.
        claimed: the pieces that it is made from; checked before each kind of write.
        store: what is remembered of the projection.
        time_buckets: those whose events were read.
    """

    run: RunContext
    claimed: Claim
    store: OffsetStore
    time_buckets: Sequence[int]

    @property
    def definition(self) -> Definition:
        """The projection."""
        return self.store.definition


@dataclass(frozen=True)
class Counted:
    """How many rows are stored, of each time bucket where the mode knows it, and what is odd."""

    rows: int
    by_bucket: Mapping[int, int] | None = None
    warnings: Sequence[Finding] = ()


def no_problems(analyzed: AnalyzedDefinition) -> Iterable[str]:
    """Refuse nothing: the `result_problems` of a mode whose table alone decides."""
    return ()


def any_place(run: RunContext, definition: Definition) -> None:
    """Refuse nothing: the `require_place` of a mode whose target is a table."""


@dataclass(frozen=True)
class WriteMode:
    """One mode.

    Attributes:
        required: the columns of the event that the result must have, with their types.
        purpose: what the required columns are for that are not part of a table's primary key.
        key_problem: what is wrong with a table's partition key and clustering columns, or None.
        rows_of: the rows to store, made from the result.
        count: counts those rows; raises a TidemarkError if they contradict the mode's rules.
        store: writes them, with a check of the claim before each kind of write.
        transform: makes the result of the events.
        has_table: whether the target is a table.
        result_problems: says what no target of the mode can hold.
        require_place: refuses a target that cannot be written; nothing is to refuse of a table.
    """

    required: Mapping[str, T.DataType]
    purpose: str
    key_problem: Callable[[Sequence[str], Sequence[str]], str | None]
    rows_of: Callable[[DataFrame, Definition], DataFrame]
    count: Callable[[DataFrame, Definition, Sequence[int]], Counted]
    store: Callable[[WriteRequest, DataFrame, Counted], None]
    transform: Transform = by_query
    has_table: bool = True
    result_problems: Callable[[AnalyzedDefinition], Iterable[str]] = no_problems
    require_place: Callable[[RunContext, Definition], None] = any_place


def as_selected(result: DataFrame, definition: Definition) -> DataFrame:
    """Return the result as it is: the `rows_of` of a mode that stores it so."""
    return result
