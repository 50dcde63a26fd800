"""Mode `fold`: one state per persistence id, with the sequence nr of the last event in it.

It is stored as in mode upsert, of which each run has at most one row for a persistence id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.projection.definition.model import Definition
from tidemark.projection.transformation.fold import by_fold
from tidemark.projection.transformation.fold_start import GENERATION_COLUMN
from tidemark.projection.transformation.state_times import GENERATION
from tidemark.projection.transformation.transform import WRITE_TIME
from tidemark.projection.writing import upsert


def key_problem(partition_key: Sequence[str], clustering: Sequence[str]) -> str | None:
    """Return what is wrong with a key that allows several states of an id, or None."""
    if upsert.key_problem(partition_key, clustering) is None:
        return None
    key = ", ".join([*partition_key, *clustering])
    return f"the table's primary key is ({key}), mode fold needs (persistence_id)"


def states(result: DataFrame, definition: Definition) -> DataFrame:
    """Return the states with their write timestamps, see `state_times`.

    In a preview and in a unit test, which know of no stored state, _generation is absent.
    """
    rows = upsert.newest(result, definition)
    if GENERATION_COLUMN not in rows.columns:
        return rows
    generation = F.coalesce(GENERATION_COLUMN, F.lit(0))
    write_time = F.col(WRITE_TIME) + generation * F.lit(GENERATION)
    return rows.withColumn(WRITE_TIME, write_time).drop(GENERATION_COLUMN)


MODE = replace(
    upsert.MODE,
    rows_of=states,
    purpose="says which events are in the state",
    key_problem=key_problem,
    keeps_apart=(),
    transform=by_fold,
)
