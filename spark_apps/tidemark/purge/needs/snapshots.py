"""The needs of projections that start from snapshots."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.pekko import shapes as journal_shapes
from tidemark.journals.pekko import snapshots
from tidemark.partitioning.slice_ranges import ALL as ALL_SLICES
from tidemark.project import shapes as projection_shapes
from tidemark.project.definition.model import Mode
from tidemark.project.offset_store.consumption import stored_offsets
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning.plan import ledger
from tidemark.purge.needs import shapes
from tidemark.purge.needs.consumers import Consumer, consumers_of
from tidemark.purge.needs.numbered import has, lowest, none
from tidemark.spark.shapes import shaped


@shaped(ids=shapes.ID, returns=shapes.EVENT_NEEDS)
def needed_snapshots(run: RunContext, ids: DataFrame) -> DataFrame:
    """Find from which snapshot on (its sequence nr) projections need those of each persistence id.

    That snapshot and all newer ones must be kept; without a row none is needed.
    """
    unique_ids = ids.select("persistence_id").distinct().localCheckpoint()
    consumers = consumers_of(run, lambda definition: definition.starts_from_snapshots)
    if not consumers:
        return none(unique_ids)
    index = snapshots.index(run.spark, run.settings, unique_ids).localCheckpoint()
    needs = [
        needed_by(
            consumer,
            index,
            stored_offsets(OffsetStore.of(run, consumer.definition), run.spark, ALL_SLICES),
            _earliest_end(run, consumer),
        )
        for consumer in consumers
    ]
    return lowest(needs).localCheckpoint()


@shaped(
    index=journal_shapes.SNAPSHOTS,
    stored=projection_shapes.OFFSETS,
    returns=shapes.EVENT_NEEDS,
)
def needed_by(
    consumer: Consumer, index: DataFrame, stored: DataFrame, earliest_end: int | None
) -> DataFrame:
    """Find the oldest snapshot of each persistence id that a projection may begin with.

    It begins a persistence id without an offset with the newest snapshot before the end of the
    window, so it needs the newest before `earliest_end` and all later ones. With an offset it
    needs none, unless a fold makes its state anew: then the newest up to the consumed events.

    `earliest_end` is the lowest end (epoch ms) that a later window may have; None if nothing is
    done yet: then the window is the present one, and has all snapshots.
    """
    number, consumed = F.col("snapshot_nr"), F.col("stored_number")
    is_new = consumed.isNull()
    first_of_new = F.max(F.when(is_new, number))
    if earliest_end is not None:
        before = F.max(F.when(is_new & (F.col("epoch_ms") < earliest_end), number))
        first_of_new = F.coalesce(before, F.min(F.when(is_new, number)))
    # The events that it consumes next may be before a newer snapshot.
    anew = F.coalesce(
        F.max(F.when(number <= consumed, number)),
        F.min(F.when(consumed.isNotNull(), number)),
    )
    is_anew = consumer.definition.mode is Mode.FOLD and consumer.progress.is_anew
    rows = (
        index.where(has(consumer.definition.source) & (number > 0))
        .join(stored.select("persistence_id", "stored_number"), on="persistence_id", how="left")
        .groupBy("persistence_id")
        .agg(F.coalesce(first_of_new, anew if is_anew else F.lit(None)).alias("needed_from"))
    )
    return rows.where("needed_from IS NOT NULL").select(
        "persistence_id",
        F.col("needed_from").cast("bigint").alias("needed_from"),
        F.lit(consumer.name).alias("reader"),
    )


def _earliest_end(run: RunContext, consumer: Consumer) -> int | None:
    """Return the end of the newest done time bucket: no later window ends before it."""
    newest = ledger(run, consumer.definition).standing().done.last
    return None if newest is None else newest + run.settings.bucket_size.milliseconds
