"""Persistence ids that begin with a snapshot and not with their first event.

At the first encounter the newest snapshot before the window's end stands for every event up to its
sequence nr: these are consumed, and never processed. The rule is that of Akka's
eventsBySlicesStartingFromSnapshots (docs/real-systems.md, "Start from snapshots"), but for the
snapshots of ids that the projection has met before, which are ignored.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journal import frames, increments, snapshots
from tidemark.journal.series import NO_TAG, SERIES
from tidemark.partitioning import columns
from tidemark.projection.acceptance.candidates import Candidates
from tidemark.projection.envelope import IS_SNAPSHOT
from tidemark.projection.planning.batch import Batch
from tidemark.projection.sources import read
from tidemark.projection.sources.base import EventSource
from tidemark.settings import Settings

BASE = ("persistence_id", "snapshot_nr")
"""What a persistence id began with: events at or below snapshot_nr (bigint) are not processed."""


def find_starts(
    source: EventSource, batch: Batch, planned: DataFrame, stored: DataFrame
) -> DataFrame:
    """Find the persistence ids of which nothing is stored, and the snapshots they begin with.

    Args:
        source: the events of the projection.
        batch: what is processed.
        planned: persistence_id and more, of the rows of the buckets to process.
        stored: as `consumption.stored_offsets` makes it.

    Columns: those of `newest`; in memory.
    """
    index = source.only_ours(_index(source, planned, stored))
    unknown = index.join(stored.select("persistence_id"), on="persistence_id", how="left_anti")
    return newest(unknown, batch.plan.end).localCheckpoint()


def _index(source: EventSource, planned: DataFrame, stored: DataFrame) -> DataFrame:
    """Read the snapshots of what may be new; by key where it is known what that is."""
    ids = source.listed_ids(planned, stored)
    if ids is None:
        return snapshots.index(source.run.spark, source.run.settings)
    new = source.only_ours(ids).join(
        stored.select("persistence_id"), on="persistence_id", how="left_anti"
    )
    return snapshots.index_of_ids(new.localCheckpoint(), source.run.settings)


def newest(found: DataFrame, end: int) -> DataFrame:
    """Of each persistence id the snapshot with the highest sequence nr that is older than `end`.

    A snapshot of sequence nr 0 has no event in it, and is none.

    Args:
        found: persistence_id, snapshot_nr, epoch_ms (bigint).
        end: of the window, exclusive, epoch ms.

    Columns: persistence_id, tag, snapshot_nr, snapshot_timestamp (timeuuid text).
    """
    is_taken = (F.col("epoch_ms") < end) & (F.col("snapshot_nr") > 0)
    last = F.max(F.struct("snapshot_nr", "epoch_ms")).alias("last")
    taken_at = columns.epoch_ms_timeuuid(F.col("last.epoch_ms"))
    return (
        found.where(is_taken)
        .groupBy("persistence_id")
        .agg(last)
        .select(
            "persistence_id",
            F.lit(NO_TAG).alias("tag"),
            F.col("last.snapshot_nr").alias("snapshot_nr"),
            taken_at.alias("snapshot_timestamp"),
        )
    )


def begun(stored: DataFrame, begin: DataFrame) -> DataFrame:
    """What is stored, as if everything up to the snapshots had been consumed.

    Args:
        stored: as `store.stored_offsets` makes it.
        begin: as `newest` makes it, none of them stored.

    Columns: those of `stored`.
    """
    number = F.col("snapshot_nr")
    as_stored = begin.select(
        *SERIES,
        number.alias("stored_number"),
        number.alias("stored_sequence_nr"),
        F.col("snapshot_timestamp").alias("stored_timestamp"),
        number,
    )
    return stored.unionByName(as_stored)


def marked(reached: DataFrame, begin: DataFrame) -> DataFrame:
    """How far each series can be consumed; a snapshot is consumed even if nothing follows it.

    Columns in: those of `acceptance.reach` over `begun`; those of `newest`. Columns out: those of
    the first, and snapshot_nr (null unless the series begins with one now).
    """
    timestamp = F.coalesce("reached_timestamp", "snapshot_timestamp")
    return (
        reached.join(begin, on=[*SERIES], how="left")
        .withColumn("reached_timestamp", timestamp)
        .drop("snapshot_timestamp")
    )


def bases(stored: DataFrame, begin: DataFrame) -> DataFrame:
    """The snapshots that persistence ids begin with now, or began with. Columns: BASE."""
    former = stored.where("snapshot_nr <= stored_number")
    return former.select(*BASE).unionByName(begin.select(*BASE))


def from_bases(rows: DataFrame, known: DataFrame) -> DataFrame:
    """Leave out what a snapshot stands for.

    Columns in: at least persistence_id, sequence_nr, is_snapshot; BASE, unique. Columns out: those
    of the first.
    """
    number = F.col("sequence_nr")
    is_behind = number > F.col("snapshot_nr")
    is_it = (number == F.col("snapshot_nr")) & F.col(IS_SNAPSHOT)
    found = rows.join(known.select(*BASE), on="persistence_id", how="left")
    return found.where(F.col("snapshot_nr").isNull() | is_behind | is_it).drop("snapshot_nr")


def as_events(rows: DataFrame) -> DataFrame:
    """Rows of the journal in a definition that starts from snapshots."""
    return rows.withColumn(IS_SNAPSHOT, F.lit(False))


def rows_of(wanted: DataFrame, settings: Settings) -> DataFrame:
    """Snapshots as rows of a source, by direct join; in memory.

    Columns in: BASE. Columns out: those of `Reader.rows`, and is_snapshot.
    """
    keys = wanted.select("persistence_id", F.col("snapshot_nr").alias("sequence_nr"))
    found = snapshots.payloads(keys.localCheckpoint(), settings).withColumns(
        {"tags": F.array().cast("array<string>"), IS_SNAPSHOT: F.lit(True)}
    )
    return read.numbered(found).select(*read.COLUMNS, *read.PAYLOAD, IS_SNAPSHOT).localCheckpoint()


def take_in(
    run: RunContext, rows: DataFrame, seen: Candidates, begin: DataFrame, stored: DataFrame
) -> DataFrame:
    """The rows to process: the snapshots, and of the others those that none stands for.

    What follows a snapshot in time buckets before the projection's first is processed with it:
    without these events the snapshot would show a state that is over.

    Args:
        run: the application's frame.
        rows: columns of `Reader.rows`.
        seen: how far each series goes, over `begun`.
        begin: as `newest` makes it, in memory.
        stored: as `store.stored_offsets` makes it.

    Columns: those of `Reader.rows`, and is_snapshot.
    """
    later = from_bases(as_events(rows), bases(stored, begin))
    if begin.isEmpty():
        return later
    further = as_events(_between(run, seen, begin))
    return later.unionByName(further).unionByName(rows_of(begin, run.settings))


def _between(run: RunContext, seen: Candidates, begin: DataFrame) -> DataFrame:
    """The accepted events behind a snapshot that lie before the projection's first bucket."""
    limits = seen.reached.select(*SERIES, "reached_number").join(begin, on=[*SERIES])
    is_between = F.col("number").between(F.col("snapshot_nr") + 1, F.col("reached_number"))
    wanted = (
        seen.rows.where(F.col("is_there") & F.col("is_before"))
        .join(limits, on=[*SERIES])
        .where(is_between)
        .select("persistence_id", "sequence_nr")
        .distinct()
    )
    keys = increments.keys_of(wanted, run.settings).localCheckpoint()
    found = frames.messages_of(keys, run.settings, *read.PAYLOAD)
    return read.numbered(found).select(*read.COLUMNS, *read.PAYLOAD).localCheckpoint()


def up_to(begin: DataFrame, settings: Settings) -> DataFrame:
    """The newest snapshot of each persistence id that has one at or below a number.

    Columns in: persistence_id, reached_number; unique. Columns out: BASE; in memory.
    """
    ids = begin.select("persistence_id").localCheckpoint()
    found = snapshots.index_of_ids(ids, settings).join(begin, on="persistence_id")
    is_taken = F.col("snapshot_nr").between(1, F.col("reached_number"))
    last = F.max("snapshot_nr").alias("snapshot_nr")
    return found.where(is_taken).groupBy("persistence_id").agg(last).localCheckpoint()
