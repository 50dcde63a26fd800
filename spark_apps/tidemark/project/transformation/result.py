"""The input and the result of the transform step, which depends on the mode."""

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
    """The events of a batch, and everything that a mode needs to process them.

    Attributes:
        decoded: result of `transform.decode`, in memory.
        accepted: accepted events from which `decoded` was made.
        accept_purged: whether to continue although events of a history have been deleted.
    """

    run: RunContext
    store: OffsetStore
    analyzed: AnalyzedDefinition
    decoded: DataFrame
    accepted: AcceptedEvents
    accept_purged: bool


@dataclass(frozen=True)
class Result:
    """The result of a batch.

    Attributes:
        rows: rows with the columns of `AnalyzedDefinition.result`.
        unprocessed: events for which the user's code raised, without undecodable events, of shape
            UNREADABLE; None if the mode has none.
        processed: events from which the rows were made, of shape PROCESSED; None for all decodable
            events.
        cached: frames in memory from which the others are made.
    """

    rows: DataFrame
    unprocessed: DataFrame | None = None
    processed: DataFrame | None = None
    cached: Sequence[DataFrame] = ()


Transform = Callable[[BatchEvents], Result]


def by_query(events: BatchEvents) -> Result:
    """Apply the definition's SELECT or function to all decodable events."""
    readable = transform.readable(events.decoded)
    return Result(analyze.apply(events.analyzed, readable))
