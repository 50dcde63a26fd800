"""What a definition makes of the events of a batch: the step that each mode chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from tidemark.context import RunContext
from tidemark.project.acceptance.accept import AcceptedEvents
from tidemark.project.analysis import analyze
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.transformation import transform


@dataclass(frozen=True)
class BatchEvents:
    """The events of a batch, and what a mode needs to make its result of them.

    Attributes:
        run: the context of the run.
        store: what is remembered of the projection.
        analyzed: its definition.
        decoded: as `transform.decode` makes them, in memory.
        accepted: where they come from.
        accept_purged: go on with what is left of a history.
    """

    run: RunContext
    store: OffsetStore
    analyzed: AnalyzedDefinition
    decoded: DataFrame
    accepted: AcceptedEvents
    accept_purged: bool


@dataclass(frozen=True)
class Result:
    """What was made of the events of a batch.

    Attributes:
        rows: of the result, with the columns of `AnalyzedDefinition.result`.
        unprocessed: the events that the user's code raised for, besides those that cannot be
            decoded, of shape UNREADABLE. None if there can be none.
        processed: the events that the rows are made from, of shape PROCESSED; None if they are all
            that could be decoded.
        cached: the frames that both are made from, in memory.
    """

    rows: DataFrame
    unprocessed: DataFrame | None = None
    processed: DataFrame | None = None
    cached: Sequence[DataFrame] = ()


Transform = Callable[[BatchEvents], Result]


def by_query(events: BatchEvents) -> Result:
    """Apply the SELECT or the function of the definition to all events that could be decoded.

    Raises:
        DefinitionError: the function raises, or does not return a DataFrame.
    """
    readable = transform.readable(events.decoded)
    return Result(analyze.apply(events.analyzed, readable))
