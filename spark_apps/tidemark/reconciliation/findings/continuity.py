"""What validate finds and the comparison of rows does not, by validate's own checks.

A row of a deleted event that is missing, or an event that is missing from messages, differs from
nothing that is stored; only the numbers around it tell. Whoever is sent here by a red validate
must find it here as well.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.continuity.findings import (
    checks,
    partition_nr,
    payload,
    sequence,
    tag_sequence,
    unwritable,
)
from tidemark.continuity.findings.finding import one_of_each
from tidemark.continuity.plan import Owed
from tidemark.continuity.shapes import ABSENT, FINDINGS
from tidemark.journal import frames
from tidemark.journal.series import SERIES
from tidemark.journal.shapes import DELETED
from tidemark.partitioning import columns
from tidemark.reconciliation.findings import kinds
from tidemark.reconciliation.findings.bounds import Bounds
from tidemark.reconciliation.findings.expected import REMOVED
from tidemark.reconciliation.findings.read import ScopedKeys
from tidemark.spark.shapes import shaped


@shaped(returns=ABSENT)
def absent_events(keys: ScopedKeys, bounds: Bounds) -> DataFrame:
    """Return the (event, tag) pairs without a row, but for events that are on their way."""
    settled = keys.index.where(F.col("ticks") < bounds.written_before)
    return tag_sequence.absent_events(settled, keys.rows, bounds.removed, Owed())


@shaped(absent=ABSENT, deleted=DELETED)
def count_exempt(absent: DataFrame, deleted: DataFrame, bounds: Bounds) -> int:
    """Count the absent events of the window that need no row: expired, purged or deleted."""
    marked = bounds.mark_required(
        absent.select(
            *SERIES,
            "sequence_nr",
            "timestamp",
            columns.timeuuid_ticks(F.col("timestamp")).alias("ticks"),
            F.col("time_bucket").alias("expected_time_bucket"),
            F.lit(1).cast("bigint").alias("expected_number"),
        ),
        deleted,
    )
    return marked.where(~F.col("is_required") & bounds.holds("expected_time_bucket")).count()


@shaped(own=kinds.COLUMNS, absent=ABSENT, returns=FINDINGS)
def further_findings(
    keys: ScopedKeys, own: DataFrame, absent: DataFrame, bounds: Bounds, *, of_ids: bool
) -> DataFrame:
    """Return validate's findings, without those of series that `own` already accuses.

    Args:
        keys: the keys in messages and tag views.
        own: the findings of the comparison, which repair knows what to do about.
        absent: `absent_events`.
        bounds: the events and rows to compare.
        of_ids: also check sequence nrs, which belong to a persistence id and not to a tag.
    """
    accused = own.select(*SERIES).distinct()
    progress = frames.placed(keys.progress, bounds.bucket_size)
    of_tags = [
        tag_sequence.tag_sequence_findings(keys.rows, absent, keys.deleted, bounds.removed),
        tag_sequence.lost_tag_tails(keys.rows, progress, keys.deleted, bounds.removed),
        tag_sequence.untagged_events(absent, unwritable.none(absent)),
    ]
    findings = reduce(DataFrame.unionByName, of_tags).join(accused, on=[*SERIES], how="left_anti")
    if of_ids:
        deleted = keys.deleted.where(F.col("deleted_to") < REMOVED)
        ends = sequence.lost_tails(
            keys.index, progress, keys.scanning, deleted, keys.listed, bounds.last_bucket
        )
        ids = accused.select("persistence_id").distinct()
        of_messages = [
            sequence.sequence_findings(keys.index, deleted),
            partition_nr.misplaced_events(keys.index, deleted, bounds.target_partition_size),
            payload.null_payloads(
                keys.index, deleted, own.where(F.col("kind") == checks.UNWRITABLE_EVENT)
            ),
            ends.join(ids, on="persistence_id", how="left_anti"),
        ]
        findings = reduce(DataFrame.unionByName, of_messages, findings)
    # Progress that names no event has no time bucket; the comparison has accused it.
    is_placed = F.col("time_bucket").isNotNull() & bounds.holds("time_bucket")
    return one_of_each(findings.where(is_placed))
