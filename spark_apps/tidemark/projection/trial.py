"""A definition tried on some events alone: nothing is stored before, and nothing after."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidemark.projection import analysis, transform
from tidemark.projection.analysis import Checked
from tidemark.projection.definition import Mode
from tidemark.projection.folding import frame

CAUSE = ("persistence_id", "sequence_nr", "cause")


def result(checked: Checked, decoded: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The result, a fold beginning without a state; and what a run would quarantine.

    Columns in: those of `transform.decode`. Columns out: of the first those of `Checked.result`, of
    the second CAUSE.
    """
    events = transform.readable(decoded)
    unreadable = transform.unreadable(decoded).select(*CAUSE)
    if checked.definition.mode is not Mode.FOLD:
        return analysis.apply(checked.definition, events), unreadable
    folded = frame.folded(events, frame.no_states(events, checked), checked).localCheckpoint()
    return frame.states(folded), unreadable.unionByName(frame.failures(folded))
