"""The write timestamps of states of mode fold, which let a recomputed state replace an older one.

A state has the timestamp of mode upsert, `sequence_nr * 1000 + version`, plus GENERATION times the
revision of the projection at which the state was last voided by hand, 0 if never. To void a state,
its cell `sequence_nr` is written again, with GENERATION times the revision as timestamp.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.errors import TidemarkError
from tidemark.project.definition.model import MAX_VERSION

GENERATION = 10**13
"""Higher than the timestamp of every sequence nr below 10 billion."""
_HIGHEST = (2**63 - 1) // GENERATION - 1
_VERSIONS = MAX_VERSION + 1
OF_ANOTHER = -1
"""The write timestamp of a row that no projection has written."""


def void_at(revision: int) -> int:
    """Return the write timestamp that voids states.

    Raises:
        TidemarkError: the projection was changed by hand too often.
    """
    if revision > _HIGHEST:
        raise TidemarkError(
            f"the projection was changed by hand {revision:,} times: write timestamps end there",
            do="give it another name and table, and let it process everything",
        )
    return revision * GENERATION


def write_time(generation: Column, sequence_nr: Column, version: Column) -> Column:
    """Return the write timestamp of a state; of version 0 if it is void."""
    rest = F.when(version == 0, F.lit(0)).otherwise(sequence_nr * _VERSIONS + version)
    return generation * F.lit(GENERATION) + rest


def generation_of(write_time: Column) -> Column:
    """Return the revision at which a state began (bigint)."""
    return F.call_function("div", write_time, F.lit(GENERATION))


def version_of(write_time: Column) -> Column:
    """Return the version of the definition that made a state (bigint); 0 if the state is void."""
    return write_time % GENERATION % _VERSIONS


def is_ours(write_time: Column, sequence_nr: Column) -> Column:
    """Return whether a projection has written or voided a state."""
    rest = write_time % GENERATION
    return (rest == 0) | (F.call_function("div", rest, F.lit(_VERSIONS)) == sequence_nr)
