"""Mode `fold`: one state per persistence id, with the sequence nr of the last event in it.

It is stored as in mode upsert, of which each run has at most one row for a persistence id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemark.projection.transformation.fold import by_fold
from tidemark.projection.writing import upsert
from tidemark.projection.writing.mode import no_problems


def key_problem(partition_key: Sequence[str], clustering: Sequence[str]) -> str | None:
    """Return what is wrong with a key that allows several states of an id, or None."""
    if upsert.key_problem(partition_key, clustering) is None:
        return None
    key = ", ".join([*partition_key, *clustering])
    return f"the table's primary key is ({key}), mode fold needs (persistence_id)"


MODE = replace(
    upsert.MODE,
    purpose="says which events are in the state",
    key_problem=key_problem,
    keeps_apart=(),
    column_problems=no_problems,
    transform=by_fold,
)
