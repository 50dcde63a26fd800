"""Plans which rows of whole tags `reconcile delete` deletes; persistence ids stay in the executors.

The driver has only the time buckets of the tags. Nothing depends on tag_write_progress alone,
which is deleted before the rows: the next run after a crash finds the rows again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from pyspark.sql import functions as F

from tidemark.application.guarded_change import EnsureLocked, Plan
from tidemark.context import RunContext
from tidemark.journals.pekko import frames, tag_view_rows, tag_views
from tidemark.reconcile import deletes
from tidemark.reconcile.delete import find as delete_find
from tidemark.reconcile.delete.plan import STAYS
from tidemark.spark.local_rows import local_rows
from tidemark.tag_write import rules
from tidemark.validate.scope import Scope, require_known
from tidemark.window import from_millis


def plan_tags(run: RunContext, tags: Collection[str], *, search_all: bool) -> Plan:
    """Plan to delete everything of some tags, partition by partition.

    The scanning of persistence ids is deleted too, so that actors read all their events again: of
    ids with a row of progress, and with `search_all` of all ids that have rows.
    """
    spark, settings = run.spark, run.settings
    partitions = delete_find.partitions_of(run.control, settings, tags)
    progress = (
        frames.write_progress(spark, settings)
        .where(F.col("tag").isin(*sorted(tags)))
        .select("persistence_id", "tag")
        .localCheckpoint()
    )
    tags_with_progress = {row["tag"] for row in progress.select("tag").distinct().collect()}
    known_tags = {tag for tag, _ in partitions} | tags_with_progress
    require_known(run, Scope(tags=(frozenset(tags) - known_tags) or None))
    ids = progress.select("persistence_id")
    if search_all and partitions:
        keys = local_rows(spark, partitions, "tag_name string, timebucket bigint")
        ids = ids.union(tag_view_rows.tag_view_keys_of(keys, settings).select("persistence_id"))
    ids = ids.distinct().localCheckpoint()
    scanning = (
        frames.scanning(spark, settings)
        .join(ids, on="persistence_id", how="left_semi")
        .select("persistence_id")
        .localCheckpoint()
    )
    counts = {
        "partitions_deleted": len(partitions),
        "progress_rows_deleted": progress.count(),
        "scanning_rows_deleted": scanning.count(),
    }

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        """Delete scanning, progress, rows: a crash between any two leaves progress that lags."""
        ensure_locked()
        # Pekko numbers the remaining events of an id anew: tag-write's state would contradict that.
        deletes.forget(ids, settings)
        ensure_locked()
        deletes.delete_scanning(scanning, settings)
        ensure_locked()
        deletes.delete_progress(progress, settings)
        ensure_locked()
        tag_views.delete_partitions(run.control, settings, partitions)
        rules.forget_absent(run.control, settings, tags)
        return counts

    if not any(counts.values()):
        return Plan(counts, ["no tag views of these"], None)
    buckets: dict[str, list[int]] = defaultdict(list)
    for tag, bucket in partitions:
        buckets[tag].append(bucket)
    lines = [
        *(
            f"tag {tag}: {len(its):,} whole time buckets, {_moment(its[0])} to {_moment(its[-1])}"
            for tag, its in buckets.items()
        ),
        f"rows of tag_write_progress: {counts['progress_rows_deleted']:,}, of tag_scanning:"
        f" {counts['scanning_rows_deleted']:,}",
        STAYS,
    ]
    return Plan(counts, lines, apply)


def _moment(time_bucket: int) -> str:
    return f"{from_millis(time_bucket):%Y-%m-%d %H:%M}"
