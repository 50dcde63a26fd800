"""Persistence ids that begin with a snapshot instead of their first event.

At the first encounter, the newest snapshot before the window's end replaces every event up to its
sequence nr: these events are consumed but never processed. The rule is that of Akka's
eventsBySlicesStartingFromSnapshots (docs/real-systems.md, "Start from snapshots"), except that
snapshots of ids with a stored offset are ignored.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko.series import NO_TAG, SERIES
from tidemark.journals.pekko.shapes import SNAPSHOT_PAYLOADS
from tidemark.partitioning import columns
from tidemark.project import shapes
from tidemark.project.acceptance.candidates import Candidates
from tidemark.project.envelope import IS_SNAPSHOT
from tidemark.project.planning.batch import Batch
from tidemark.project.sources import read
from tidemark.project.sources.base import EventSource
from tidemark.spark.shapes import shaped

BASE = tuple(shapes.SNAPSHOT_BASES)


@shaped(planned=shapes.ID, offsets=shapes.OFFSETS, returns=shapes.STARTS)
def find_starts(
    source: EventSource, batch: Batch, planned: DataFrame, offsets: DataFrame
) -> DataFrame:
    """Find the persistence ids without an offset, and the snapshots they begin with; in memory.

    `planned` are the rows of the buckets to process.
    """
    index = source.only_ours(_index(source, batch, planned, offsets))
    of_new_ids = index.join(offsets.select("persistence_id"), on="persistence_id", how="left_anti")
    return newest(of_new_ids, batch.plan.end).localCheckpoint()


def _index(source: EventSource, batch: Batch, planned: DataFrame, offsets: DataFrame) -> DataFrame:
    """Read the snapshots of ids that may be new; by key if the source can list its ids."""
    ids = source.listed_ids(batch, planned, offsets)
    if ids is None:
        return source.snapshot_index()
    new_ids = source.only_ours(ids).join(
        offsets.select("persistence_id"), on="persistence_id", how="left_anti"
    )
    return source.snapshot_index(new_ids.localCheckpoint())


@shaped(index={**shapes.SNAPSHOT_BASES, "epoch_ms": "bigint"}, returns=shapes.STARTS)
def newest(index: DataFrame, end: int) -> DataFrame:
    """Choose the snapshot of each persistence id with the highest sequence nr.

    Only snapshots written before `end` (epoch ms) count. A snapshot of sequence nr 0 contains no
    event and is ignored.
    """
    is_usable = (F.col("epoch_ms") < end) & (F.col("snapshot_nr") > 0)
    last = F.max(F.struct("snapshot_nr", "epoch_ms")).alias("last")
    taken_at = columns.epoch_ms_timeuuid(F.col("last.epoch_ms"))
    return (
        index.where(is_usable)
        .groupBy("persistence_id")
        .agg(last)
        .select(
            "persistence_id",
            F.lit(NO_TAG).alias("tag"),
            F.col("last.snapshot_nr").alias("snapshot_nr"),
            taken_at.alias("snapshot_timeuuid"),
        )
    )


@shaped(offsets=shapes.OFFSETS, starts=shapes.STARTS, returns=shapes.OFFSETS)
def with_starts(offsets: DataFrame, starts: DataFrame) -> DataFrame:
    """Add the snapshots of persistence ids without an offset as offsets."""
    number = F.col("snapshot_nr")
    as_offsets = starts.select(
        *SERIES,
        number.alias("stored_number"),
        number.alias("stored_sequence_nr"),
        F.col("snapshot_timeuuid").alias("stored_timeuuid"),
        number,
    )
    return offsets.unionByName(as_offsets)


@shaped(reached=shapes.FRONTIERS, starts=shapes.STARTS, returns=shapes.FRONTIERS)
def marked(reached: DataFrame, starts: DataFrame) -> DataFrame:
    """Mark the frontiers that begin with a snapshot, which is consumed even if no event follows.

    `reached` are the frontiers from `with_starts`.

    Columns: FRONTIERS, and snapshot_nr (null unless the series begins with a snapshot now).
    """
    timeuuid = F.coalesce("reached_timeuuid", "snapshot_timeuuid")
    return (
        reached.join(starts, on=[*SERIES], how="left")
        .withColumn("reached_timeuuid", timeuuid)
        .drop("snapshot_timeuuid")
    )


@shaped(offsets=shapes.OFFSETS, starts=shapes.STARTS, returns=shapes.SNAPSHOT_BASES)
def bases(offsets: DataFrame, starts: DataFrame) -> DataFrame:
    """Return the snapshots that persistence ids begin with now or began with earlier."""
    former = offsets.where("snapshot_nr <= stored_number")
    return former.select(*BASE).unionByName(starts.select(*BASE))


@shaped(rows=shapes.EVENT, bases=shapes.SNAPSHOT_BASES, returns=shapes.EVENT)
def from_bases(rows: DataFrame, bases: DataFrame) -> DataFrame:
    """Drop the rows that a snapshot replaces; the rows have is_snapshot, `bases` are unique."""
    number = F.col("sequence_nr")
    is_after = number > F.col("snapshot_nr")
    is_base = (number == F.col("snapshot_nr")) & F.col(IS_SNAPSHOT)
    based = rows.join(bases.select(*BASE), on="persistence_id", how="left")
    return based.where(F.col("snapshot_nr").isNull() | is_after | is_base).drop("snapshot_nr")


def as_events(rows: DataFrame) -> DataFrame:
    """Add is_snapshot to rows of the journal, for a definition that starts from snapshots."""
    return rows.withColumn(IS_SNAPSHOT, F.lit(False))


@shaped(bases=shapes.SNAPSHOT_BASES, returns=shapes.EVENTS)
def rows_of(source: EventSource, bases: DataFrame) -> DataFrame:
    """Read snapshots as rows of a source, by key; in memory.

    Columns: EVENTS, and is_snapshot.
    """
    keys = bases.select("persistence_id", F.col("snapshot_nr").alias("sequence_nr"))
    absent = {
        name: F.lit(None).cast(kind)
        for name, kind in shapes.PAYLOAD.items()
        if name not in SNAPSHOT_PAYLOADS
    }
    snapshot_rows = source.snapshot_payloads(keys.localCheckpoint()).withColumns(
        {**absent, "tags": F.array().cast("array<string>"), IS_SNAPSHOT: F.lit(True)}
    )
    return (
        read.numbered(snapshot_rows)
        .select(*read.COLUMNS, *read.PAYLOAD, IS_SNAPSHOT)
        .localCheckpoint()
    )


@shaped(rows=shapes.EVENTS, starts=shapes.STARTS, offsets=shapes.OFFSETS, returns=shapes.EVENTS)
def take_in(
    source: EventSource,
    rows: DataFrame,
    candidates: Candidates,
    starts: DataFrame,
    offsets: DataFrame,
) -> DataFrame:
    """Add the snapshots to the rows to process, and leave out the rows that a snapshot replaces.

    Events after a snapshot in time buckets before the projection's first are processed with it:
    without them the snapshot would show an outdated state. `candidates` were found with the
    offsets from `with_starts`; `starts` is in memory.

    Columns: EVENTS, and is_snapshot.
    """
    later = from_bases(as_events(rows), bases(offsets, starts))
    if starts.isEmpty():
        return later
    between = as_events(_between(source, candidates, starts))
    return later.unionByName(between).unionByName(rows_of(source, starts))


def _between(source: EventSource, candidates: Candidates, starts: DataFrame) -> DataFrame:
    """Read the accepted events after a snapshot that are older than the first time bucket."""
    limits = candidates.reached.select(*SERIES, "reached_number").join(starts, on=[*SERIES])
    is_between = F.col("number").between(F.col("snapshot_nr") + 1, F.col("reached_number"))
    event_keys = (
        candidates.rows.where(F.col("is_there") & F.col("is_before"))
        .join(limits, on=[*SERIES])
        .where(is_between)
        .select("persistence_id", "sequence_nr")
        .distinct()
    )
    return source.events_by_key(event_keys).localCheckpoint()


@shaped(reached={**shapes.ID, "reached_number": "bigint"}, returns=shapes.SNAPSHOT_BASES)
def up_to(source: EventSource, reached: DataFrame) -> DataFrame:
    """Find the newest snapshot of each persistence id at or below its reached_number; in memory.

    The persistence ids of `reached` are unique.
    """
    ids = reached.select("persistence_id").localCheckpoint()
    candidates = source.snapshot_index(ids).join(reached, on="persistence_id")
    is_usable = F.col("snapshot_nr").between(1, F.col("reached_number"))
    last = F.max("snapshot_nr").alias("snapshot_nr")
    return candidates.where(is_usable).groupBy("persistence_id").agg(last).localCheckpoint()
