"""The write timestamps of states of mode fold, by which a state that is computed again wins.

A state has the timestamp of mode upsert, `sequence_nr * 1000 + version`, plus GENERATION times the
revision of the projection at which it was last made void by hand, 0 if it never was. A void state
is one whose cell `sequence_nr` was written once more, with the generation alone as its timestamp.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.errors import TidemarkError
from tidemark.project.definition.model import MAX_VERSION

GENERATION = 10**13
"""Above the timestamp of every sequence nr below 10 billion."""
_HIGHEST = (2**63 - 1) // GENERATION - 1
_VERSIONS = MAX_VERSION + 1


def void_at(revision: int) -> int:
    """Return the write timestamp that makes a state void.

    Raises:
        TidemarkError: the projection was changed by hand too often.
    """
    if revision > _HIGHEST:
        raise TidemarkError(
            f"the projection was changed by hand {revision:,} times: write timestamps end there",
            do="give it another name and table, and let it process everything",
        )
    return revision * GENERATION


def generation_of(write_time: Column) -> Column:
    """Return the revision at which a state was begun (bigint)."""
    return F.call_function("div", write_time, F.lit(GENERATION))


def version_of(write_time: Column) -> Column:
    """Return the version of the definition that made a state (bigint); 0 of a void one."""
    return write_time % GENERATION % _VERSIONS


def is_ours(write_time: Column, sequence_nr: Column) -> Column:
    """Return whether a projection has written a state, or made it void."""
    rest = write_time % GENERATION
    return (rest == 0) | (F.call_function("div", rest, F.lit(_VERSIONS)) == sequence_nr)
