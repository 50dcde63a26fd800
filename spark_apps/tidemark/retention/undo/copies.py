"""Copies of what a deletion takes: Parquet, each in a directory of its own.

DIRECTORY/COPY/<rows>/   whole rows, each with write time, TTL and when it was saved
DIRECTORY/COPY/about/    one row, written last: without it the copy is not complete

A row's `write_time` (microseconds) and `ttl` (seconds that it had left; null for ever) are those of
one cell that every writer of its table writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.cassandra.control import Control
from tidemark.context import RunContext
from tidemark.errors import InvalidInput, TidemarkError, root_cause
from tidemark.retention.undo.places import is_plain
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.window import to_millis

_ABOUT = (
    "copy string, kind string, journal_keyspace string, snapshot_keyspace string, saved_at bigint"
)
_ABOUT_IT = "about"


class Kind(StrEnum):
    """What a copy is of."""

    EVENTS = "events"
    TAG_VIEWS = "tag-views"


@dataclass(frozen=True)
class Copy:
    """A complete copy.

    Attributes:
        place: its directory.
        kind: what it is of.
        keyspaces: the journal's and the snapshots', as the run was set that saved.
        saved_at: epoch ms.
    """

    place: str
    kind: Kind
    keyspaces: tuple[str, str]
    saved_at: int


def keyspaces_of(settings: Settings) -> tuple[str, str]:
    """Return the keyspaces that a copy is of, and written back into."""
    return settings.journal_keyspace, settings.snapshot_keyspace


def columns_of(control: Control, keyspace: str, name: str) -> list[str]:
    """Return the columns of a table, in order."""
    return sorted(control.table_columns(keyspace, name) or {})


def write(run: RunContext, place: str, kind: Kind, rows: Mapping[str, DataFrame]) -> None:
    """Write a copy, before anything is deleted.

    Args:
        run: the context of the run.
        place: the directory of the copy, which does not exist yet.
        kind: what it is of.
        rows: the frames by name.

    Raises:
        TidemarkError: the directory cannot be written; nothing was deleted.
    """
    saved_at = to_millis(clock.now())
    run.say(f"saving to {place} what goes")
    try:
        for name, frame in rows.items():
            stamped = frame.withColumn("saved_at", F.lit(saved_at).cast("bigint"))
            stamped.write.parquet(f"{place}/{name}")
        copy = place.rpartition("/")[2]
        about = [(copy, str(kind), *keyspaces_of(run.settings), saved_at)]
        local_rows(run.spark, about, _ABOUT).write.parquet(f"{place}/{_ABOUT_IT}")
    except (PySparkException, Py4JJavaError) as error:
        raise TidemarkError(
            f"what goes cannot be saved: {root_cause(error)}",
            where=place,
            do="nothing was deleted; give another directory",
        ) from None


def complete(run: RunContext, directory: str) -> tuple[list[Copy], list[str]]:
    """Find the complete copies in a directory, in the order in which they were made.

    Args:
        run: the context of the run.
        directory: as `places.directory_of` returns it.

    Returns:
        The copies, and a line for each that cannot be used.

    Raises:
        InvalidInput: there is none that can be used.
    """
    try:
        rows = run.spark.read.schema(_ABOUT).parquet(f"{directory}/*/{_ABOUT_IT}").collect()
    except AnalysisException:
        rows = []
    found, unusable = [], []
    for row in rows:
        if not is_plain(row.copy) or row.kind not in {*Kind}:
            unusable.append(
                f"the copy {row.copy} is left out: its `{_ABOUT_IT}` names no directory in"
                f" {directory} or no kind of copies that is known"
            )
            continue
        keyspaces = (row.journal_keyspace, row.snapshot_keyspace)
        place = f"{directory}/{row.copy}"
        found.append(Copy(place, Kind(row.kind), keyspaces, row.saved_at))
    if not found:
        raise InvalidInput(
            "; ".join(unusable) or "no complete copy is there",
            where=directory,
            do="name a directory of --save-to",
        )
    return sorted(found, key=lambda copy: (copy.saved_at, copy.place)), unusable


def rows_of(
    run: RunContext, copies: Sequence[Copy], name: str, key: Sequence[str]
) -> DataFrame | None:
    """Read the rows of copies that are still alive, each once; None if no copy has such rows.

    They have `write_time`, microseconds, and `time_to_live`, the seconds that are left; 0 for ever.
    """
    found = [rows for copy in copies if (rows := _rows(run, copy, name)) is not None]
    return _alive(found, key) if found else None


def all_rows_of(
    run: RunContext, copies: Sequence[Copy], name: str, key: Sequence[str]
) -> DataFrame:
    """Read what `rows_of` reads, of at least one copy, each of which must have such rows.

    Raises:
        InvalidInput: one has lost them.
    """
    found = []
    for copy in copies:
        rows = _rows(run, copy, name)
        if rows is None:
            raise InvalidInput(
                f"the copy is damaged: it has no {name}", where=copy.place, do="move it away"
            )
        found.append(rows)
    return _alive(found, key)


def _rows(run: RunContext, copy: Copy, name: str) -> DataFrame | None:
    try:
        return run.spark.read.parquet(f"{copy.place}/{name}")
    except AnalysisException:
        return None


def _alive(found: Sequence[DataFrame], key: Sequence[str]) -> DataFrame:
    left = F.col("ttl") - F.floor((F.lit(to_millis(clock.now())) - F.col("saved_at")) / 1000)
    return (
        reduce(DataFrame.unionByName, found)
        .dropDuplicates([*key])
        .withColumn("time_to_live", F.coalesce(left, F.lit(0)).cast("int"))
        .withColumn("write_time", F.coalesce("write_time", F.col("saved_at") * 1000))
        .where(F.col("ttl").isNull() | (F.col("time_to_live") > 0))
        .drop("ttl", "saved_at")
    )
