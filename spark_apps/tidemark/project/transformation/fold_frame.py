"""Folds a frame of events and a frame of stored states into new states and failures."""

from __future__ import annotations

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.definition.query import Function
from tidemark.project.envelope import IS_SNAPSHOT, STATE_KEY
from tidemark.project.transformation.fold_start import GENERATION_COLUMN, HAS_MARKER, FoldStart
from tidemark.project.transformation.fold_worker import FAILURES, Fold

_PERSISTENCE_ID, _SEQUENCE_NR = STATE_KEY.names
_FAILURES_TYPE = "array<struct<sequence_nr: bigint, cause: string>>"
_FOLDED_TO = "_folded_to"
_PROCESSED_TO = "_processed_to"
IN_STATE_SINCE = "in_state_since"


def folded(
    events: DataFrame, states: DataFrame, analyzed: AnalyzedDefinition, *, in_parts: bool = False
) -> DataFrame:
    """Fold the events above each state's sequence nr into new states.

    `events` is of shape READABLE; `states` has the columns of `analyzed.result` and at most one row
    per persistence id. The result has the same columns (sequence_nr is null if the first event
    fails and the policy skips none), and `_failures`, see `failures`. With `in_parts` each call of
    the function gets one event. Events before a snapshot are absent; the snapshot begins a new
    state.
    """
    fold = _fold(analyzed, in_parts)

    def fold_one(key: tuple[str], events: pd.DataFrame, stored: pd.DataFrame) -> pd.DataFrame:
        return fold(key[0], events, stored)

    folded_to = states.select(_PERSISTENCE_ID, F.col(_SEQUENCE_NR).alias(_FOLDED_TO))
    is_new = F.col(_FOLDED_TO).isNull() | (F.col(_SEQUENCE_NR) > F.col(_FOLDED_TO))
    new_events = (
        events.join(folded_to, on=_PERSISTENCE_ID, how="left").where(is_new).drop(_FOLDED_TO)
    )
    if IS_SNAPSHOT in new_events.columns:
        # A run that died may have stored a state that is older than this run's snapshot.
        restarted_ids = new_events.where(IS_SNAPSHOT).select(_PERSISTENCE_ID)
        states = states.join(restarted_ids, on=_PERSISTENCE_ID, how="left_anti")
    schema = T.StructType([*analyzed.result.fields, T.StructField(FAILURES, T.StringType())])
    return (
        new_events.groupBy(_PERSISTENCE_ID)
        .cogroup(states.groupBy(_PERSISTENCE_ID))
        .applyInPandas(fold_one, schema)
    )


def with_states(events: DataFrame, start: FoldStart) -> DataFrame:
    """Add to events the generation of a state at or after them, see `shapes.PROCESSED`."""
    states = start.states.select(_PERSISTENCE_ID, F.col(_SEQUENCE_NR).alias(_FOLDED_TO)).join(
        start.generations, on=_PERSISTENCE_ID, how="left"
    )
    generation = F.coalesce(GENERATION_COLUMN, F.lit(0).cast("bigint"))
    in_state_since = F.when(F.col(_SEQUENCE_NR) <= F.col(_FOLDED_TO), generation)
    return (
        events.join(states, on=_PERSISTENCE_ID, how="left")
        .withColumn(IN_STATE_SINCE, in_state_since)
        .drop(_FOLDED_TO, GENERATION_COLUMN, HAS_MARKER)
    )


def no_states(events: DataFrame, analyzed: AnalyzedDefinition) -> DataFrame:
    """Return an empty frame of states."""
    return events.sparkSession.createDataFrame([], analyzed.result)


def states(folded: DataFrame) -> DataFrame:
    """Return the new states in `folded`, with the columns of `AnalyzedDefinition.result`."""
    return folded.where(F.col(_SEQUENCE_NR).isNotNull()).drop(FAILURES)


def to_store(folded: DataFrame, decoded: DataFrame, start: FoldStart) -> DataFrame:
    """Return the rows to store, also of persistence ids of which no event can be folded.

    The sequence nr is that of the last processed event, whether it was folded or skipped: with a
    lower sequence nr, the state of an earlier version would win.

    Columns in: `decoded` is the result of `transform.decode`. Columns out: those of
    `AnalyzedDefinition.result`, _generation and tidemark_has_marker, both nullable.
    """
    last = decoded.groupBy(_PERSISTENCE_ID).agg(F.max(_SEQUENCE_NR).alias(_PROCESSED_TO))
    is_past = F.col(_PROCESSED_TO) > F.col(_SEQUENCE_NR)
    passed_states = start.states.join(last, on=_PERSISTENCE_ID).where(is_past).drop(_PROCESSED_TO)
    unfolded = start.unfolded.unionByName(passed_states).dropDuplicates([_PERSISTENCE_ID])
    rows = states(folded)
    rows = rows.unionByName(unfolded.join(rows, on=_PERSISTENCE_ID, how="left_anti"))
    return (
        rows.join(last, on=_PERSISTENCE_ID, how="left")
        .withColumn(_SEQUENCE_NR, F.greatest(_SEQUENCE_NR, _PROCESSED_TO))
        .drop(_PROCESSED_TO)
        .join(start.generations, on=_PERSISTENCE_ID, how="left")
    )


def failures(folded: DataFrame) -> DataFrame:
    """Return the events that could not be folded: persistence_id, sequence_nr and cause."""
    parsed = F.from_json(FAILURES, _FAILURES_TYPE)
    return folded.where(F.col(FAILURES).isNotNull()).select(_PERSISTENCE_ID, F.inline(parsed))


def _fold(analyzed: AnalyzedDefinition, in_parts: bool) -> Fold:
    body = analyzed.definition.body
    assert isinstance(body, Function)  # noqa: S101 - the mode has a function
    fields = T.StructType(analyzed.result.fields[len(STATE_KEY) :])
    policy = analyzed.definition.on_error
    return Fold(body.sources, body.module, body.name, fields, policy, in_parts)
