"""Manually skipped numbers under which no event can arrive any more.

A projection that reads its source again, as after a change of its definition, must leave out the
skipped numbers, and must not take them for a gap. So a skip is kept until the source has no event
of the series up to its last number, and the projection's offset has passed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, timedelta
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.application.approval import digest
from tidemark.context import RunContext
from tidemark.journals.kafka import written
from tidemark.journals.pekko import frames, tag_view_rows
from tidemark.journals.pekko.series import NO_TAG
from tidemark.journals.pekko.shapes import ID
from tidemark.partitioning.slice_ranges import ALL as ALL_SLICES
from tidemark.project.definition.model import Definition
from tidemark.project.definition.source import KafkaJournal
from tidemark.project.offset_store.consumption import stored_offsets
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.offset_store.skips import TABLE
from tidemark.project.planning.lock import resource_of
from tidemark.purge.messages import read
from tidemark.purge.own_tables.old_rows import delete_keys, lock_of
from tidemark.purge.own_tables.orphans import projections
from tidemark.purge.own_tables.presence import without_trace
from tidemark.purge.target import TargetPlan, Tombstones
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import Shape, ddl, shaped

_KEY = ("projection", "persistence_id", "tag", "first_number")
_SERIES = ["persistence_id", "tag"]
SKIPS: Shape = {**ID, "tag": "string", "first_number": "bigint", "last_number": "bigint"}
NUMBERS: Shape = {**ID, "tag": "string", "number": "bigint"}
"""The events that a source has, by the series and number that the projection uses."""
OFFSETS: Shape = {**ID, "tag": "string", "stored_number": "bigint"}


def plan_skipped(run: RunContext, keep_days: int) -> TargetPlan:
    """Plan the skips that are older than `keep_days` days and that no projection can meet again.

    They are few, since people have typed each of them.
    """
    before = run.moment - timedelta(days=keep_days)
    keys: list[tuple[object, ...]] = []
    kept = 0
    locks = [lock_of(run, TABLE)]
    for definition in projections(run):
        offsets = OffsetStore.of(run, definition)
        rows = run.control.execute(
            "SELECT persistence_id, tag, first_number, last_number, skipped_at"
            f" FROM {offsets.table(TABLE)} WHERE projection = ?",
            (offsets.subject,),
        )
        old = [
            (row["persistence_id"], row["tag"], row["first_number"], row["last_number"])
            for row in rows
            if row["skipped_at"] is not None and row["skipped_at"].replace(tzinfo=UTC) < before
        ]
        unneeded_keys = _unneeded_keys(run, definition, old) if old else []
        keys += [(offsets.subject, *key) for key in unneeded_keys]
        kept += len(rows) - len(unneeded_keys)
        locks += [resource_of(run, definition)] if unneeded_keys else []
    return TargetPlan(
        {"skipped_deletes": len(keys), "skipped_kept": kept},
        [f"skipped: {len(keys):,} ranges of numbers go, keeps {kept:,}"],
        Tombstones(rows=len(keys)),
        digest(keys),
        locks,
        partial(delete_keys, run, TABLE, "skipped_deletes", {_KEY: keys}) if keys else None,
    )


@shaped(old=SKIPS, numbers=NUMBERS, offsets=OFFSETS, absent=ID, returns=SKIPS)
def unneeded(
    old: DataFrame, numbers: DataFrame, offsets: DataFrame, absent: DataFrame
) -> DataFrame:
    """Return the skips that no projection can meet again.

    `numbers` are the numbers of their series in the source. Nothing of `absent` persistence ids is
    met, whatever the offset.
    """
    first = numbers.groupBy(*_SERIES).agg(F.min("number").alias("first_left"))
    absent_ids = absent.select("persistence_id", F.lit(True).alias("is_gone"))
    is_passed = F.coalesce(F.col("stored_number") >= F.col("last_number"), F.lit(False))
    return (
        old.join(first, on=_SERIES, how="left")
        .join(offsets.select(*_SERIES, "stored_number"), on=_SERIES, how="left")
        .join(absent_ids, on="persistence_id", how="left")
        .where(F.col("first_left").isNull() | (F.col("first_left") > F.col("last_number")))
        .where(is_passed | F.coalesce("is_gone", F.lit(False)))
        .select(*SKIPS)
    )


def _unneeded_keys(
    run: RunContext, definition: Definition, old: Sequence[tuple[object, ...]]
) -> list[tuple[object, ...]]:
    """Return persistence id, tag and first number of the skips that cannot be met again."""
    skips = local_rows(run.spark, list(old), ddl(SKIPS))
    ids = skips.select("persistence_id").distinct().localCheckpoint()
    source = definition.source
    topic = source.topic if isinstance(source, KafkaJournal) else None
    store = OffsetStore.of(run, definition)
    deletable = unneeded(
        skips,
        _numbers(run, definition, ids),
        stored_offsets(store, run.spark, ALL_SLICES).select(*OFFSETS),
        without_trace(run, ids, topic),
    )
    rows = deletable.select("persistence_id", "tag", "first_number").collect()
    return sorted(tuple(row) for row in rows)


@shaped(ids=ID, returns=NUMBERS)
def _numbers(run: RunContext, definition: Definition, ids: DataFrame) -> DataFrame:
    """Read the numbers of the events that a projection's source has of some persistence ids."""
    settings, source = run.settings, definition.source
    if source.reads_tag_views:
        rows = tag_view_rows.tag_view_keys(run.spark, settings)
        rows = rows.withColumnRenamed("tag_pid_sequence_nr", "number")
        return rows.select(*NUMBERS).join(F.broadcast(ids), on="persistence_id", how="left_semi")
    if isinstance(source, KafkaJournal):
        rows = written.event_rows(run.spark, settings).where(F.col("topic") == source.topic)
        rows = rows.join(F.broadcast(ids), on="persistence_id", how="left_semi")
        rows = rows.withColumnRenamed("seq_nr", "number")
    else:
        deleted = frames.deleted(ids.sparkSession, settings, ids).localCheckpoint()
        rows = read.events_of_ids(run, ids, deleted).withColumnRenamed("sequence_nr", "number")
    return rows.withColumn("tag", F.lit(NO_TAG)).select(*NUMBERS)
