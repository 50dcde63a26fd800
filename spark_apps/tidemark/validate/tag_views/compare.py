"""The comparison of messages with tag views, for validate and for `reconcile check`.

First come differences between stored and expected rows and progress (`rows`, `progress`). Then the
numbers are checked as they will be once those differences are repaired: no repair changes these
findings. So each fault is reported once, and findings that remain after a repair were reported
before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journals.pekko import frames
from tidemark.journals.pekko.series import SERIES
from tidemark.numbering import rule
from tidemark.partitioning import columns
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import ddl, shaped
from tidemark.validate.findings import checks, finding, sequence, tag_sequence
from tidemark.validate.findings.all_findings import JournalKeys, number_findings
from tidemark.validate.findings.check import Repair
from tidemark.validate.shapes import ABSENT, EVIDENCE, FINDINGS
from tidemark.validate.tag_views import as_repaired, finding_kinds, progress, rows
from tidemark.validate.tag_views.bounds import Bounds
from tidemark.validate.tag_views.expected import (
    REMOVED,
    expected_rows,
    points,
    reached,
    sequence_ends,
)
from tidemark.validate.tag_views.keys import Keep, KeptRows, Keys
from tidemark.validate.tag_views.prefilter import SuspectIds


@dataclass(frozen=True)
class Compared:
    """The result of a comparison.

    Attributes:
        keys: the compared keys, `settled`.
        findings: of shape FINDINGS and EVIDENCE.
        kept: the rows without an event that are not findings.
        absent: the (event, tag) pairs without a row that are not findings; of shape ABSENT.
    """

    keys: Keys
    findings: DataFrame
    kept: KeptRows
    absent: DataFrame


def compare(
    read: Keys, suspects: SuspectIds, bounds: Bounds, keep: Keep, *, of_ids: bool = True
) -> Compared:
    """Compare the keys of messages and tag views within the bounds.

    `keep` keeps a frame in memory that is used more than once. `of_ids`: also compare what does not
    depend on a tag: tag_scanning, and the sequence nrs.
    """
    if not suspects.differing:
        return _empty(read)
    stored = suspects.keys_that_differ(read, keep)
    keys = stored.settled(keep)
    kept = KeptRows.of(keys, keep)
    differences = keep(
        bounds.reported(
            finding_kinds.as_findings(
                _differences(keys, kept, bounds, keep, of_ids=of_ids), bounds.bucket_size
            )
        )
    )
    repaired = _as_repaired(keys, differences, bounds, keep)
    absent = keep(
        tag_sequence.absent_events(keys.index, repaired.rows, bounds.removed, bounds.pending)
    )
    numbers = number_findings(
        repaired, absent, bounds.removed, bounds.last_bucket, bounds.target_partition_size
    )
    if of_ids:
        numbers = numbers.unionByName(sequence.deleted_beyond(stored.index, stored.deleted))
    else:
        numbers = numbers.where(F.col("check_name").isin(*checks.repaired_by(Repair.OTHER_ROWS)))
    # Progress that names no event has no time bucket; it is among the differences.
    reported = bounds.reported(finding.one_of_each(numbers.where(F.col("time_bucket").isNotNull())))
    shape = [*FINDINGS, *EVIDENCE]
    return Compared(keys, differences.unionByName(reported.select(*shape)), kept, absent)


def _empty(read: Keys) -> Compared:
    """Return the result of a comparison of no persistence ids."""
    keys = read.each(lambda frame: frame.limit(0))
    spark, shapes = read.index.sparkSession, ({**FINDINGS, **EVIDENCE}, ABSENT)
    findings, absent = (local_rows(spark, [], ddl(shape)) for shape in shapes)
    return Compared(keys, findings, KeptRows(keys.rows, keys.rows), absent)


@shaped(absent=ABSENT)
def count_exempt(absent: DataFrame, bounds: Bounds) -> int:
    """Return the number of absent events that need no row, since it is expired or purged."""
    events = absent.select(
        *SERIES,
        "sequence_nr",
        "timestamp",
        columns.timeuuid_ticks(F.col("timestamp")).alias("ticks"),
        F.col("time_bucket").alias("expected_time_bucket"),
        F.lit(1).cast("bigint").alias("expected_number"),
        F.lit(False).alias("is_lost"),
        F.lit(False).alias("is_pending"),
    )
    exempt = bounds.mark_required(events).where(
        ~F.col("is_required") & (F.col("ticks") < bounds.written_before)
    )
    return bounds.within(exempt, "expected_time_bucket").count()


@shaped(returns=finding_kinds.COLUMNS)
def _differences(
    keys: Keys, kept: KeptRows, bounds: Bounds, keep: Keep, *, of_ids: bool
) -> DataFrame:
    deleted_rows, lost_rows = kept.of_deleted_events, kept.of_lost_events
    all_points = keep(points(keys.index, keys.rows, keys.progress, deleted_rows, lost_rows))
    numbered = keep(rule.numbered(all_points, rule.known_shifts(all_points)))
    required = bounds.mark_required(expected_rows(numbered))
    expected = keep(bounds.mark_settled(required, keys.scanning))
    row_findings = keep(rows.row_findings(expected, keys.rows, keys.deleted, bounds))
    parts = [
        row_findings,
        rows.unwritable_findings(keys.index, lost_rows, bounds),
        progress.progress_findings(
            expected,
            keys.progress.join(reached(numbered), on=[*SERIES], how="left"),
            deleted_rows,
            keys.deleted,
            sequence_ends(keys.index),
            bounds,
        ),
        progress.skipped_findings(row_findings, keys.progress, keys.scanning),
    ]
    if of_ids:
        parts.append(
            progress.scanning_findings(keys.index, keys.scanning, keys.deleted, lost_rows, bounds)
        )
    return reduce(DataFrame.unionByName, parts)


def _as_repaired(keys: Keys, differences: DataFrame, bounds: Bounds, keep: Keep) -> JournalKeys:
    """Return the keys as they will be once the differences are repaired."""
    size = bounds.bucket_size
    placed_progress = frames.placed(keys.progress, size)
    tag_rows, scanning = keys.rows, keys.scanning
    if not differences.isEmpty():
        tag_rows = keep(as_repaired.rows(tag_rows, differences))
        placed_progress = keep(as_repaired.progress(placed_progress, differences, size))
        scanning = keep(as_repaired.scanning(scanning, differences))
    return JournalKeys(
        keys.index,
        keys.index,
        tag_rows,
        placed_progress,
        scanning,
        deleted=keys.deleted.where(F.col("deleted_to") < REMOVED),
        listed=keys.listed,
        unwritable=differences.where(F.col("check_name") == checks.UNWRITABLE_EVENT.name),
    )
