"""Copies of rows that are to be deleted: Parquet, each copy in a directory of its own.

DIRECTORY/COPY/<rows>/   complete rows, each with write time, TTL and when it was saved
DIRECTORY/COPY/about/    one row, written last: without it the copy is incomplete

A row's `write_time` (microseconds) and `ttl` (its remaining seconds; null for ever) are those of
a cell that every writer of its table writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.cassandra.control import Control
from tidemark.context import RunContext
from tidemark.errors import InvalidInput, TidemarkError, root_cause
from tidemark.purge.saved.places import is_plain
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.masters import is_local
from tidemark.window import to_millis

_ABOUT = (
    "copy string, kind string, journal_keyspace string, snapshot_keyspace string,"
    " saved_at bigint, run_id string"
)
_ABOUT_IT = "about"
_KIND = "events"
"""Copies of events and snapshots; former releases had other kinds, too."""


@dataclass(frozen=True)
class Copy:
    """A complete copy.

    Attributes:
        place: its directory.
        run_id: the run that saved it; the directory's name if a former release did.
        keyspaces: those of the journal and of the snapshots, as set in that run.
        saved_at: epoch ms.
    """

    place: str
    run_id: str
    keyspaces: tuple[str, str]
    saved_at: int


def keyspaces_of(settings: Settings) -> tuple[str, str]:
    """Return the keyspaces that are saved, and restored into."""
    return settings.journal_keyspace, settings.snapshot_keyspace


def columns_of(control: Control, keyspace: str, name: str) -> list[str]:
    """Return the columns of a table, in order."""
    return sorted(control.table_columns(keyspace, name) or {})


def write(run: RunContext, directory: str, rows: Mapping[str, DataFrame]) -> None:
    """Write a copy, before anything is deleted, and verify it by reading it back.

    The directory must not exist yet; `rows` are the frames by name.

    Raises:
        TidemarkError: the directory cannot be written, or the copy cannot be read back.
    """
    saved_at = to_millis(clock.now())
    run.say(f"saving to {directory} what goes")
    try:
        for name, frame in rows.items():
            stamped = frame.withColumn("saved_at", F.lit(saved_at).cast("bigint"))
            _write(run, directory, name, stamped)
        copy = directory.rpartition("/")[2]
        about = [(copy, _KIND, *keyspaces_of(run.settings), saved_at, run.run_id)]
        _write(run, directory, _ABOUT_IT, local_rows(run.spark, about, _ABOUT))
    except (PySparkException, Py4JJavaError) as error:
        raise TidemarkError(
            f"what goes cannot be saved: {root_cause(error)}",
            where=directory,
            do="nothing was deleted; give another directory",
        ) from None


def _write(run: RunContext, directory: str, name: str, rows: DataFrame) -> None:
    """Write rows, and compare them with the rows that the driver reads back."""
    observation = Observation()
    rows.observe(observation, *sums(rows)).write.parquet(f"{directory}/{name}")
    # With the schema, since an empty directory has none.
    copied = run.spark.read.schema(rows.schema).parquet(f"{directory}/{name}")
    written, [read_back] = observation.get, copied.agg(*sums(copied)).collect()
    if read_back.asDict() == written:
        return
    message = f"{name} has other rows than were written"
    if read_back["rows"] != written["rows"]:
        message = f"{name} has {read_back['rows']:,} rows, and {written['rows']:,} were written"
    do = "give another directory"
    if directory.startswith("file:") and not is_local(run.spark.conf.get("spark.master") or ""):
        do = "name a directory that all machines of Spark share, or a URI of a shared file system"
    raise TidemarkError(
        f"the copy cannot be read back: {message}", where=directory, do=f"nothing was deleted; {do}"
    )


def sums(rows: DataFrame) -> list[Column]:
    """Return aggregates that are equal for frames with the same rows in any order."""
    # Spark hashes no maps.
    values = [
        F.to_json(F.struct(name)) if "map<" in kind else F.col(name) for name, kind in rows.dtypes
    ]
    hashed = F.xxhash64(*values)
    return [
        F.count("*").alias("rows"),
        F.bit_xor(hashed).alias("xor"),
        F.sum(hashed.cast("decimal(38,0)")).alias("sum"),
    ]


def complete(run: RunContext, directory: str) -> tuple[list[Copy], list[str]]:
    """Find the complete copies in a directory, oldest first.

    Returns:
        The copies, and a line for each that cannot be used.

    Raises:
        InvalidInput: there is none that can be used.
    """
    try:
        rows = run.spark.read.schema(_ABOUT).parquet(f"{directory}/*/{_ABOUT_IT}").collect()
    except AnalysisException:
        rows = []
    usable, unusable = [], []
    for row in rows:
        if not is_plain(row.copy) or row.kind != _KIND:
            unusable.append(
                f"the copy {row.copy} is left out: its `{_ABOUT_IT}` names no directory in"
                f" {directory}, or it is not of events and snapshots"
            )
            continue
        keyspaces = (row.journal_keyspace, row.snapshot_keyspace)
        place = f"{directory}/{row.copy}"
        usable.append(Copy(place, row.run_id or row.copy, keyspaces, row.saved_at))
    if not usable:
        raise InvalidInput(
            "; ".join(unusable) or "no complete copy is there",
            where=directory,
            do="name a directory of --save-to",
        )
    return sorted(usable, key=lambda copy: (copy.saved_at, copy.place)), unusable


def rows_of(
    run: RunContext, copies: Sequence[Copy], name: str, key: Sequence[str]
) -> DataFrame | None:
    """Read the rows of copies that have not expired, each once; None if no copy has such rows.

    They have `write_time`, microseconds, and `time_to_live`, the remaining seconds; 0 for ever.
    """
    frames = [rows for copy in copies if (rows := _rows(run, copy, name)) is not None]
    return _alive(frames, key) if frames else None


def _rows(run: RunContext, copy: Copy, name: str) -> DataFrame | None:
    try:
        return run.spark.read.parquet(f"{copy.place}/{name}")
    except AnalysisException:
        return None


def _alive(frames: Sequence[DataFrame], key: Sequence[str]) -> DataFrame:
    remaining = F.col("ttl") - F.floor((F.lit(to_millis(clock.now())) - F.col("saved_at")) / 1000)
    return (
        reduce(DataFrame.unionByName, frames)
        .dropDuplicates([*key])
        .withColumn("time_to_live", F.coalesce(remaining, F.lit(0)).cast("int"))
        .withColumn("write_time", F.coalesce("write_time", F.col("saved_at") * 1000))
        .where(F.col("ttl").isNull() | (F.col("time_to_live") > 0))
        .drop("ttl", "saved_at")
    )
