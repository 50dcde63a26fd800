"""All checks together: from the keys of a journal to the findings of some time buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.continuity import shapes
from tidemark.continuity.findings import (
    extra_rows,
    finding,
    partition_nr,
    partition_size,
    payload,
    row_place,
    sequence,
    tag_sequence,
    unwritable,
)
from tidemark.journal.shapes import TAG_ROWS
from tidemark.ledger.purged import Removed
from tidemark.partitioning.keys import BucketSize
from tidemark.spark.shapes import shaped


@dataclass(frozen=True)
class JournalKeys:
    """The keys of a journal's tables, without payload.

    Attributes:
        index: `journal.frames.message_index`.
        placed: of it, with partition_nr and has_payload, the events of the time buckets at least.
        rows: `journal.frames.tag_view_keys`.
        progress: `journal.frames.placed_progress`.
        scanning: `journal.frames.scanning`.
        deleted: `journal.frames.deleted`.
        listed: `journal_keys.listed`.
        unwritable: `unwritable.unwritable_events`.
        misplaced: `row_place.misplaced_rows`.
        extra: `extra_rows.extra_rows`.
    """

    index: DataFrame
    placed: DataFrame
    rows: DataFrame
    progress: DataFrame
    scanning: DataFrame
    deleted: DataFrame
    listed: DataFrame
    unwritable: DataFrame
    misplaced: DataFrame
    extra: DataFrame


@shaped(absent=shapes.ABSENT, returns=shapes.FINDINGS)
def all_findings(
    keys: JournalKeys,
    absent: DataFrame,
    removed: Removed,
    buckets: Sequence[int],
    target_partition_size: int,
) -> DataFrame:
    """Return every finding in the time buckets (epoch ms), one for each KEY.

    `keys` must cover the whole history: an event's predecessor may lie in any time bucket.
    """
    numbers = tag_sequence.tag_sequence_findings(keys.rows, absent, keys.deleted, removed)
    others = _others(keys, absent, removed, max(buckets), target_partition_size)
    return finding.of_buckets([numbers, *others], buckets)


@shaped(absent=shapes.ABSENT, returns=shapes.FINDINGS)
def suspicions(
    keys: JournalKeys,
    absent: DataFrame,
    removed: Removed,
    buckets: Sequence[int],
    target_partition_size: int,
) -> DataFrame:
    """Return a superset of the findings in the time buckets, from what `incremental` has read.

    It has whatever `all_findings` would find by the whole history, and may have more. Nothing
    excuses a missing row here, since the rows and events that could are not read.

    `keys` holds the new events, and in `index` their neighbours.
    """
    none = F.lit(False)
    numbers = tag_sequence.tag_sequence_findings(
        keys.rows, absent.where(none), keys.deleted.where(none), Removed()
    )
    others = _others(keys, absent, removed, max(buckets), target_partition_size)
    return finding.of_buckets([numbers, *others], buckets)


@shaped(index=shapes.NUMBERED_EVENTS, rows=TAG_ROWS, returns=shapes.FINDINGS)
def warnings(
    index: DataFrame,
    rows: DataFrame,
    size: BucketSize,
    row_bytes: float,
    buckets: Sequence[int],
) -> DataFrame:
    """Return the findings in the time buckets of the checks that warn, one for each KEY.

    `index` has the events of the buckets and those before them, `rows` all rows of the buckets,
    of `row_bytes` on average.
    """
    parts = [sequence.out_of_order(index), partition_size.large_partitions(rows, size, row_bytes)]
    return finding.of_buckets(parts, buckets)


def _others(
    keys: JournalKeys, absent: DataFrame, removed: Removed, last: int, target_partition_size: int
) -> list[DataFrame]:
    return [
        sequence.sequence_findings(keys.index, keys.deleted),
        partition_nr.misplaced_events(keys.placed, keys.deleted, target_partition_size),
        payload.null_payloads(keys.placed, keys.deleted, keys.unwritable),
        sequence.lost_tails(
            keys.index, keys.progress, keys.scanning, keys.deleted, keys.listed, last
        ),
        tag_sequence.lost_tag_tails(keys.rows, keys.progress, keys.deleted, removed),
        tag_sequence.untagged_events(absent, keys.unwritable),
        unwritable.unwritable_findings(keys.unwritable),
        row_place.misplaced_findings(keys.misplaced, keys.deleted),
        extra_rows.extra_findings(keys.extra),
    ]
