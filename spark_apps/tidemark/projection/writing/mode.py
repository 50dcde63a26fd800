"""What a mode consists of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from tidemark.context import RunContext
from tidemark.ledger.claim import Claim
from tidemark.projection.definition.model import Definition
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
        run: the application's frame.
        claimed: the pieces that it is made from; checked before each kind of write.
        definition: the projection.
        time_buckets: those whose events were read.
    """

    run: RunContext
    claimed: Claim
    definition: Definition
    time_buckets: Sequence[int]

    @property
    def subject(self) -> str:
        """The projection's name in the ledger."""
        return self.definition.subject(self.run.settings.journal_keyspace)


@dataclass(frozen=True)
class Counted:
    """How many rows are stored, of each time bucket where the mode knows it, and what is odd."""

    rows: int
    by_bucket: Mapping[int, int] | None = None
    warnings: Sequence[Finding] = ()


@dataclass(frozen=True)
class WriteMode:
    """One mode.

    Attributes:
        required: the columns of the event that the result must have, with their types.
        purpose: what those of them are for that are not part of a table's primary key.
        key_problem: what is wrong with a table's partition key and clustering columns, or None.
        rows_of: the rows to store, made from the result.
        count: counts those rows; raises a TidemarkError if they contradict the mode's rules.
        store: writes them, with a check of the claim before each kind of write.
    """

    required: Mapping[str, T.DataType]
    purpose: str
    key_problem: Callable[[Sequence[str], Sequence[str]], str | None]
    rows_of: Callable[[DataFrame, Definition], DataFrame]
    count: Callable[[DataFrame, Definition, Sequence[int]], Counted]
    store: Callable[[WriteRequest, DataFrame, Counted], None]


def as_selected(result: DataFrame, definition: Definition) -> DataFrame:
    """The `rows_of` of a mode that stores the result as it is."""
    return result
