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
from tidemark.journals.pekko import frames, snapshots
from tidemark.journals.pekko.messages import increments
from tidemark.journals.pekko.series import NO_TAG, SERIES
from tidemark.journals.pekko.shapes import SNAPSHOT_PAYLOADS
from tidemark.partitioning import columns
from tidemark.project import shapes
from tidemark.project.acceptance.candidates import Candidates
from tidemark.project.envelope import IS_SNAPSHOT
from tidemark.project.planning.batch import Batch
from tidemark.project.sources import read
from tidemark.project.sources.base import EventSource
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped

BASE = tuple(shapes.SNAPSHOT_BASES)


@shaped(planned=shapes.ID, stored=shapes.OFFSETS, returns=shapes.STARTS)
def find_starts(
    source: EventSource, batch: Batch, planned: DataFrame, stored: DataFrame
) -> DataFrame:
    """Find the persistence ids of which nothing is stored, and the snapshots they begin with.

    Args:
        source: the events of the projection.
        batch: what is processed.
        planned: the rows of the buckets to process.
        stored: of all series.

    The frame is in memory.
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
    return snapshots.index(source.run.spark, source.run.settings, new.localCheckpoint())


@shaped(index={**shapes.SNAPSHOT_BASES, "epoch_ms": "bigint"}, returns=shapes.STARTS)
def newest(index: DataFrame, end: int) -> DataFrame:
    """Choose the snapshot of each persistence id with the highest sequence nr before `end`.

    A snapshot of sequence nr 0 has no event in it, and is none.

    Args:
        index: the snapshots that there are.
        end: of the window, exclusive, epoch ms.
    """
    is_taken = (F.col("epoch_ms") < end) & (F.col("snapshot_nr") > 0)
    last = F.max(F.struct("snapshot_nr", "epoch_ms")).alias("last")
    taken_at = columns.epoch_ms_timeuuid(F.col("last.epoch_ms"))
    return (
        index.where(is_taken)
        .groupBy("persistence_id")
        .agg(last)
        .select(
            "persistence_id",
            F.lit(NO_TAG).alias("tag"),
            F.col("last.snapshot_nr").alias("snapshot_nr"),
            taken_at.alias("snapshot_timeuuid"),
        )
    )


@shaped(stored=shapes.OFFSETS, begin=shapes.STARTS, returns=shapes.OFFSETS)
def begun(stored: DataFrame, begin: DataFrame) -> DataFrame:
    """Add to what is stored that everything up to the snapshots was consumed.

    Args:
        stored: of all series.
        begin: none of them is stored.
    """
    number = F.col("snapshot_nr")
    as_stored = begin.select(
        *SERIES,
        number.alias("stored_number"),
        number.alias("stored_sequence_nr"),
        F.col("snapshot_timeuuid").alias("stored_timeuuid"),
        number,
    )
    return stored.unionByName(as_stored)


@shaped(reached=shapes.FRONTIERS, begin=shapes.STARTS, returns=shapes.FRONTIERS)
def marked(reached: DataFrame, begin: DataFrame) -> DataFrame:
    """Mark the frontiers that begin with a snapshot; it is consumed even if nothing follows it.

    Args:
        reached: over `begun`.
        begin: the snapshots.

    Columns: FRONTIERS, and snapshot_nr (null unless the series begins with one now).
    """
    timeuuid = F.coalesce("reached_timeuuid", "snapshot_timeuuid")
    return (
        reached.join(begin, on=[*SERIES], how="left")
        .withColumn("reached_timeuuid", timeuuid)
        .drop("snapshot_timeuuid")
    )


@shaped(stored=shapes.OFFSETS, begin=shapes.STARTS, returns=shapes.SNAPSHOT_BASES)
def bases(stored: DataFrame, begin: DataFrame) -> DataFrame:
    """Return the snapshots that persistence ids begin with now, or began with."""
    former = stored.where("snapshot_nr <= stored_number")
    return former.select(*BASE).unionByName(begin.select(*BASE))


@shaped(rows=shapes.EVENT, known=shapes.SNAPSHOT_BASES, returns=shapes.EVENT)
def from_bases(rows: DataFrame, known: DataFrame) -> DataFrame:
    """Drop the rows that a snapshot stands for. Rows have is_snapshot; `known` is unique."""
    number = F.col("sequence_nr")
    is_behind = number > F.col("snapshot_nr")
    is_it = (number == F.col("snapshot_nr")) & F.col(IS_SNAPSHOT)
    based = rows.join(known.select(*BASE), on="persistence_id", how="left")
    return based.where(F.col("snapshot_nr").isNull() | is_behind | is_it).drop("snapshot_nr")


def as_events(rows: DataFrame) -> DataFrame:
    """Mark rows of the journal in a definition that starts from snapshots."""
    return rows.withColumn(IS_SNAPSHOT, F.lit(False))


@shaped(wanted=shapes.SNAPSHOT_BASES, returns=shapes.EVENTS)
def rows_of(wanted: DataFrame, settings: Settings) -> DataFrame:
    """Read snapshots as rows of a source, by direct join; in memory.

    Columns: EVENTS, and is_snapshot.
    """
    keys = wanted.select("persistence_id", F.col("snapshot_nr").alias("sequence_nr"))
    absent = {
        name: F.lit(None).cast(kind)
        for name, kind in shapes.PAYLOAD.items()
        if name not in SNAPSHOT_PAYLOADS
    }
    snapshot_rows = snapshots.payloads(keys.localCheckpoint(), settings).withColumns(
        {**absent, "tags": F.array().cast("array<string>"), IS_SNAPSHOT: F.lit(True)}
    )
    return (
        read.numbered(snapshot_rows)
        .select(*read.COLUMNS, *read.PAYLOAD, IS_SNAPSHOT)
        .localCheckpoint()
    )


@shaped(rows=shapes.EVENTS, begin=shapes.STARTS, stored=shapes.OFFSETS, returns=shapes.EVENTS)
def take_in(
    run: RunContext, rows: DataFrame, seen: Candidates, begin: DataFrame, stored: DataFrame
) -> DataFrame:
    """Add the snapshots to the rows to process, and leave out those that a snapshot stands for.

    What follows a snapshot in time buckets before the projection's first is processed with it:
    without these events the snapshot would show a state that is over.

    Args:
        run: the context of the run.
        rows: of the source.
        seen: how far each series goes, over `begun`.
        begin: in memory.
        stored: of all series.

    Columns: EVENTS, and is_snapshot.
    """
    later = from_bases(as_events(rows), bases(stored, begin))
    if begin.isEmpty():
        return later
    further = as_events(_between(run, seen, begin))
    return later.unionByName(further).unionByName(rows_of(begin, run.settings))


def _between(run: RunContext, seen: Candidates, begin: DataFrame) -> DataFrame:
    """Read the accepted events behind a snapshot that lie before the projection's first bucket."""
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
    messages = frames.messages_of(keys, run.settings, *read.PAYLOAD)
    return read.numbered(messages).select(*read.COLUMNS, *read.PAYLOAD).localCheckpoint()


@shaped(begin={**shapes.ID, "reached_number": "bigint"}, returns=shapes.SNAPSHOT_BASES)
def up_to(begin: DataFrame, settings: Settings) -> DataFrame:
    """Find the newest snapshot of each persistence id at or below a number, where there is one.

    The persistence ids of `begin` are unique; the result is in memory.
    """
    ids = begin.select("persistence_id").localCheckpoint()
    candidates = snapshots.index(ids.sparkSession, settings, ids).join(begin, on="persistence_id")
    is_taken = F.col("snapshot_nr").between(1, F.col("reached_number"))
    last = F.max("snapshot_nr").alias("snapshot_nr")
    return candidates.where(is_taken).groupBy("persistence_id").agg(last).localCheckpoint()
