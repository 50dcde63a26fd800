"""A definition tried on some events alone: nothing is stored before, and nothing after."""

from __future__ import annotations

import math
from typing import Any

from pyspark.sql import DataFrame

from tidemark.errors import TidemarkError
from tidemark.projection.analysis import analyze
from tidemark.projection.analysis.analyze import AnalyzedDefinition
from tidemark.projection.definition.model import Mode
from tidemark.projection.transformation import fold_frame, transform

CAUSE = ("persistence_id", "sequence_nr", "cause")


def result(checked: AnalyzedDefinition, decoded: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the result, of a fold without states before, and what a run would quarantine.

    `decoded` is of shape DECODED. The first frame has the columns of `AnalyzedDefinition.result`,
    the second those in CAUSE.
    """
    events = transform.readable(decoded)
    unreadable = transform.unreadable(decoded).select(*CAUSE)
    if checked.definition.mode is not Mode.FOLD:
        return analyze.apply(checked.definition, events), unreadable
    folded = fold_frame.folded(
        events, fold_frame.no_states(events, checked), checked
    ).localCheckpoint()
    return fold_frame.states(folded), unreadable.unionByName(fold_frame.failures(folded))


def require_same_in_parts(
    checked: AnalyzedDefinition, decoded: DataFrame, states: DataFrame
) -> None:
    """Fold the events one at a time as well: how many come in one call must not matter.

    Args:
        checked: a definition of mode fold.
        decoded: as `transform.decode` makes it.
        states: what `result` has made of it.

    Raises:
        TidemarkError: a state is another one then; floating point numbers may differ by rounding.
    """
    events = transform.readable(decoded)
    folded = fold_frame.folded(
        events, fold_frame.no_states(events, checked), checked, in_parts=True
    )
    parts = fold_frame.states(folded).orderBy("persistence_id").collect()
    for state_at_once, state_in_parts in zip(
        states.orderBy("persistence_id").collect(), parts, strict=True
    ):
        if not all(map(_is_same, state_at_once, state_in_parts)):
            raise TidemarkError(
                f"the state of {state_at_once.persistence_id} is {_shown(state_at_once)} from all"
                f" events at once, and {_shown(state_in_parts)} from one after the other",
                where=str(checked.definition.file),
                do="let the fold give the same however many events come in one call",
            )


def _is_same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right)
    return bool(left == right)


def _shown(row: Any) -> str:
    values: dict[str, Any] = row.asDict()
    return ", ".join(
        f"{name} {value}" for name, value in values.items() if name != "persistence_id"
    )
