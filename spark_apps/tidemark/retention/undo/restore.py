"""What deletions took and saved, written back.

Cassandra hides a row behind every later delete of it. A restored row is therefore written at the
time of the restore, and its original write time stays in the Parquet only; its lifetime goes on
from where it was when it was saved. The order of writes: events, snapshots, then metadata, which
makes the events visible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.errors import InvalidInput, TidemarkError, WrongData
from tidemark.journal import frames, snapshots
from tidemark.retention.messages import read
from tidemark.retention.messages.deletes import fingerprint, locks_of
from tidemark.retention.target import TargetPlan, Tombstones, digest
from tidemark.retention.undo import save, store
from tidemark.settings import Settings
from tidemark.window import to_millis

_EVENT = ["persistence_id", "sequence_nr", "timestamp"]
_SNAPSHOT = ["persistence_id", "sequence_nr"]


@dataclass(frozen=True)
class _Saved:
    """What complete copies hold; each frame is None if none has such rows."""

    ids: DataFrame
    messages: DataFrame | None
    snapshots: DataFrame | None


def locks(settings: Settings) -> list[str]:
    """Return what must be locked."""
    return [*locks_of(settings), snapshots.lock_of(settings)]


def plan_restore(run: RunContext, directory: str) -> TargetPlan:
    """Plan to write back what the copies in a directory hold and the journal lacks.

    Raises:
        InvalidInput: there is no complete copy, or it is of other keyspaces.
        WrongData: the journal has gone on in a way that the copies do not fit: other events under
            their sequence nrs, or more deleted than they hold.
    """
    saved = _read(run, directory.rstrip("/"))
    ids = saved.ids.select("persistence_id")
    deleted = frames.deleted_of_ids(ids, run.settings).localCheckpoint()
    events = _lacking_events(run, saved, ids, deleted)
    taken = _lacking_snapshots(run, saved, ids)
    back = (
        saved.ids.join(deleted.withColumnRenamed("deleted_to", "now"), "persistence_id", "left")
        .where(F.coalesce(F.col("now"), F.lit(0)) != F.col("deleted_to"))
        .select("persistence_id", "deleted_to")
        .localCheckpoint()
    )
    listed = saved.ids.where("is_listed").select("persistence_id")
    counts = {
        "events_restored": 0 if events is None else events.count(),
        "snapshots_restored": 0 if taken is None else taken.count(),
        "metadata_restored": back.count(),
    }
    keys = [fingerprint(back)]
    keys += [fingerprint(rows.select(*_SNAPSHOT)) for rows in (events, taken) if rows is not None]

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        if events is not None:
            ensure_locked()
            store.write_messages(events, run.settings)
        if taken is not None:
            ensure_locked()
            store.write_snapshots(taken, run.settings)
        ensure_locked()
        store.write_listed(listed, run.settings)
        ensure_locked()
        store.write_metadata(back, run.settings)
        _require_visible(run, ids, events, back)
        return counts

    lines = [
        f"{counts['events_restored']:,} events and {counts['snapshots_restored']:,} snapshots come"
        f" back, and deleted_to of {counts['metadata_restored']:,} persistence ids",
        "the actors of these persistence ids must be stopped; their tag views come back with"
        " `reconcile rebuild --persistence-id`, if they were deleted too",
    ]
    return TargetPlan(
        counts,
        lines if any(counts.values()) else ["everything is there already"],
        Tombstones(),
        digest(keys),
        locks(run.settings),
        apply if any(counts.values()) else None,
    )


def _read(run: RunContext, directory: str) -> _Saved:
    settings = run.settings
    try:
        about = run.spark.read.parquet(f"{directory}/*/{save.ABOUT_IT}").collect()
    except AnalysisException:
        raise InvalidInput(
            "no complete copy is there", where=directory, do="name a directory of --save-to"
        ) from None
    ours = (settings.journal_keyspace, settings.snapshot_keyspace)
    if others := [row for row in about if (row.journal_keyspace, row.snapshot_keyspace) != ours]:
        raise InvalidInput(
            f"the copy is of {others[0].journal_keyspace} and {others[0].snapshot_keyspace},"
            f" not of {ours[0]} and {ours[1]}",
            where=f"{directory}/{others[0].run_id}",
            do="set TIDEMARK_JOURNAL_KEYSPACE and TIDEMARK_SNAPSHOT_KEYSPACE",
        )
    places = [f"{directory}/{row.run_id}" for row in about]
    ids = run.spark.read.parquet(*(f"{place}/{save.IDS}" for place in places))
    return _Saved(
        # Of several copies the first knew what was deleted before them all.
        ids.groupBy("persistence_id")
        .agg(F.min("deleted_to").alias("deleted_to"), F.bool_or("is_listed").alias("is_listed"))
        .localCheckpoint(),
        _rows(run, places, save.MESSAGES, _EVENT),
        _rows(run, places, save.SNAPSHOTS, _SNAPSHOT),
    )


def _rows(run: RunContext, places: list[str], name: str, key: list[str]) -> DataFrame | None:
    """Read the rows of all copies, each once, with `time_to_live`; 0 means for ever."""
    read_one = partial(_rows_of, run, name)
    found = [rows for place in places if (rows := read_one(place)) is not None]
    if not found:
        return None
    merged = found[0]
    for rows in found[1:]:
        merged = merged.unionByName(rows)
    left = F.col("ttl") - F.floor((F.lit(to_millis(clock.now())) - F.col("saved_at")) / 1000)
    return (
        merged.dropDuplicates(key)
        .withColumn("time_to_live", F.coalesce(left, F.lit(0)).cast("int"))
        .where(F.col("ttl").isNull() | (F.col("time_to_live") > 0))
        .drop("ttl", "write_time", "saved_at")
    )


def _rows_of(run: RunContext, name: str, place: str) -> DataFrame | None:
    try:
        return run.spark.read.parquet(f"{place}/{name}")
    except AnalysisException:
        return None


def _lacking_events(
    run: RunContext, saved: _Saved, ids: DataFrame, deleted: DataFrame
) -> DataFrame | None:
    if saved.messages is None:
        return None
    there = read.events_of_ids(run, ids, deleted).select("persistence_id", "partition_nr")
    held = frames.messages_of(there.distinct(), run.settings).select(*_EVENT).localCheckpoint()
    ends = saved.messages.groupBy("persistence_id").agg(F.max("sequence_nr").alias("end"))
    others = (
        held.join(ends, on="persistence_id")
        .where(F.col("sequence_nr") <= F.col("end"))
        .join(saved.messages.select(*_EVENT), on=_EVENT, how="left_anti")
        .select("persistence_id")
    )
    further = deleted.join(ends, on="persistence_id").where(F.col("deleted_to") > F.col("end"))
    moved = others.unionByName(further.select("persistence_id")).distinct()
    if names := [row.persistence_id for row in moved.orderBy("persistence_id").limit(3).collect()]:
        raise WrongData(
            f"{', '.join(names)}: the journal has gone on since: it has other events of these"
            " sequence nrs, or has deleted more than was saved",
            where=run.settings.journal_keyspace,
            do="nothing was written; restore by hand what you need",
        )
    return saved.messages.join(held, on=_EVENT, how="left_anti")


def _lacking_snapshots(run: RunContext, saved: _Saved, ids: DataFrame) -> DataFrame | None:
    if saved.snapshots is None:
        return None
    there = snapshots.index_of_ids(ids, run.settings).select(
        "persistence_id", F.col("snapshot_nr").alias("sequence_nr")
    )
    return saved.snapshots.join(there.localCheckpoint(), on=_SNAPSHOT, how="left_anti")


def _require_visible(
    run: RunContext, ids: DataFrame, events: DataFrame | None, back: DataFrame
) -> None:
    """Look whether what was written is there.

    Raises:
        TidemarkError: a delete hides it, since it was made by a machine whose clock is ahead.
    """
    now = frames.deleted_of_ids(ids, run.settings)
    hidden = back.join(now, on=["persistence_id", "deleted_to"], how="left_anti").count()
    if events is not None:
        keys = events.select("persistence_id", "partition_nr").distinct()
        there = frames.messages_of(keys, run.settings).select(*_EVENT)
        hidden += events.join(there, on=_EVENT, how="left_anti").count()
    if hidden:
        raise TidemarkError(
            f"{hidden:,} rows are still hidden by their delete, which a machine made whose clock is"
            " ahead of this one's",
            do="run it again when that time has passed",
        )
