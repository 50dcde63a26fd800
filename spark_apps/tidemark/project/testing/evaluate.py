"""Evaluates a definition on some events without stored states, and without storing results."""

from __future__ import annotations

import math
from functools import reduce
from itertools import zip_longest
from typing import Any

from pyspark.sql import DataFrame

from tidemark.errors import TidemarkError
from tidemark.project.acceptance import snapshots
from tidemark.project.analysis import analyze
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.definition.model import Mode
from tidemark.project.transformation import failing_events, fold_frame, transform
from tidemark.project.writing.write import MODES
from tidemark.spark.row_errors import is_of_rows

CAUSE = ("persistence_id", "sequence_nr", "cause")


def decoded(analyzed: AnalyzedDefinition, rows: DataFrame) -> DataFrame:
    """Decode rows of a source (EVENTS), none of them snapshots, into shape DECODED."""
    events = snapshots.as_events(rows) if analyzed.definition.starts_from_snapshots else rows
    return transform.decode(transform.distinct_events(events), analyzed.event, analyzed.decoders)


def result(analyzed: AnalyzedDefinition, decoded: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the result, and the events that a run would quarantine; a fold begins without states.

    `decoded` is of shape DECODED. The first frame has the columns of `AnalyzedDefinition.result`,
    the second those in CAUSE.
    """
    events = transform.readable(decoded)
    unreadable = transform.unreadable(decoded).select(*CAUSE)
    if analyzed.definition.mode is not Mode.FOLD:
        rows, failures = _of_query(analyzed, events)
        return rows, unreadable.unionByName(failures)
    folded = fold_frame.folded(
        events, fold_frame.no_states(events, analyzed), analyzed
    ).localCheckpoint()
    return fold_frame.states(folded), unreadable.unionByName(fold_frame.failures(folded))


def _of_query(analyzed: AnalyzedDefinition, events: DataFrame) -> tuple[DataFrame, DataFrame]:
    try:
        rows = analyze.apply(analyzed, events).localCheckpoint()
        return rows, failing_events.failures({}, events)
    except Exception as error:
        causes = failing_events.find(analyzed, events) if is_of_rows(error) else {}
        if not causes:
            raise
    failures = failing_events.failures(causes, events)
    processable = events.join(failures, on=["persistence_id", "sequence_nr"], how="left_anti")
    return analyze.apply(analyzed, processable).localCheckpoint(), failures


def require_same_divided(
    analyzed: AnalyzedDefinition, decoded: DataFrame, result: DataFrame
) -> None:
    """Compare a result with that of the same events divided into parts, as runs may divide them.

    `decoded` is of shape DECODED with few events, and `result` is their result.

    Raises:
        TidemarkError: the results differ; floating point numbers may differ by rounding.
    """
    if analyzed.definition.mode is Mode.FOLD:
        _require_same_in_parts(analyzed, decoded, result)
    else:
        _require_same_by_bucket(analyzed, decoded, result)


def _require_same_in_parts(
    analyzed: AnalyzedDefinition, decoded: DataFrame, states: DataFrame
) -> None:
    """Compare with the states from folding one event at a time."""
    events = transform.readable(decoded)
    folded = fold_frame.folded(
        events, fold_frame.no_states(events, analyzed), analyzed, in_parts=True
    )
    parts = fold_frame.states(folded).orderBy("persistence_id").collect()
    for state_at_once, state_in_parts in zip(
        states.orderBy("persistence_id").collect(), parts, strict=True
    ):
        if not all(map(_is_same, state_at_once, state_in_parts)):
            raise TidemarkError(
                f"the state of {state_at_once.persistence_id} is {_shown(state_at_once)} from all"
                f" events at once, and {_shown(state_in_parts)} from one after the other",
                where=str(analyzed.definition.file),
                do="let the fold give the same however many events come in one call",
            )


def _require_same_by_bucket(
    analyzed: AnalyzedDefinition, decoded: DataFrame, result: DataFrame
) -> None:
    """Compare with the result of applying the definition to each time bucket separately."""
    definition, events = analyzed.definition, transform.readable(decoded)
    buckets = sorted(row.time_bucket for row in events.select("time_bucket").distinct().collect())
    if len(buckets) < 2:
        return
    parts = [analyze.apply(analyzed, events.where(f"time_bucket = {bucket}")) for bucket in buckets]
    rows_of = MODES[definition.mode].rows_of
    rows_in_parts = rows_of(reduce(DataFrame.union, parts), definition)
    at_once, in_parts = (
        sorted(map(tuple, frame.collect()), key=_order)
        for frame in (rows_of(result, definition), rows_in_parts)
    )
    different_rows = next(
        (pair for pair in zip_longest(at_once, in_parts, fillvalue=()) if not _are_same(*pair)),
        None,
    )
    if different_rows:
        shown = [
            "(" + ", ".join(map(str, row)) + ")" if row else "no row" for row in different_rows
        ]
        raise TidemarkError(
            f"the result has {shown[0]} from all time buckets at once, and {shown[1]} from each of"
            " them by itself",
            where=str(definition.file),
            do="let each row be made of the events of one time bucket",
        )


def _order(row: tuple[Any, ...]) -> list[str]:
    # Rounding must not change the order of rows.
    return [f"{value:.9g}" if isinstance(value, float) else str(value) for value in row]


def _are_same(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return len(left) == len(right) and all(map(_is_same, left, right))


def _is_same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right) or (math.isnan(left) and math.isnan(right))
    return bool(left == right)


def _shown(row: Any) -> str:
    values: dict[str, Any] = row.asDict()
    return ", ".join(
        f"{name} {value}" for name, value in values.items() if name != "persistence_id"
    )
