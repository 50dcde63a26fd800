"""All checks of numbers: from the keys of a journal to findings."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame

from tidemark.ledger.purged import Removed
from tidemark.partitioning.keys import BucketSize
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.findings import (
    finding,
    partition_nr,
    partition_size,
    payload,
    sequence,
    tag_sequence,
)


@dataclass(frozen=True)
class JournalKeys:
    """The keys of a journal's tables, without payload.

    Attributes:
        index: `frames.message_index`.
        placed: index with partition_nr and has_payload; at least the events of the time buckets.
        rows: `tag_view_rows.tag_view_keys`.
        progress: `frames.placed_progress`.
        scanning: `frames.scanning`.
        deleted: `frames.deleted`.
        listed: `journal_keys.listed`.
        unwritable: the events with findings of `unwritable_event`, of shape MESSAGE_KEYS.
    """

    index: DataFrame
    placed: DataFrame
    rows: DataFrame
    progress: DataFrame
    scanning: DataFrame
    deleted: DataFrame
    listed: DataFrame
    unwritable: DataFrame


@shaped(absent=shapes.ABSENT, returns=shapes.FINDINGS)
def number_findings(
    keys: JournalKeys,
    absent: DataFrame,
    removed: Removed,
    last_bucket: int,
    target_partition_size: int,
) -> DataFrame:
    """Return every finding of numbers and payloads, in any time bucket.

    Args:
        keys: the complete history, since an event's predecessor may be in any time bucket.
        absent: `tag_sequence.absent_events`.
        removed: the time buckets whose rows may be removed.
        last_bucket: the newest checked time bucket, epoch ms.
        target_partition_size: of messages, in events.
    """
    findings = tag_sequence.tag_sequence_findings(keys.rows, absent, keys.deleted, removed)
    return findings.unionByName(event_findings(keys, removed, last_bucket, target_partition_size))


@shaped(returns=shapes.FINDINGS)
def event_findings(
    keys: JournalKeys, removed: Removed, last_bucket: int, target_partition_size: int
) -> DataFrame:
    """Return the findings of `number_findings` except those between two rows.

    `keys` may be the part of the journal that `incremental` has read.
    """
    parts = [
        tag_sequence.lost_tag_tails(keys.rows, keys.progress, keys.deleted, removed),
        sequence.sequence_findings(keys.index, keys.deleted),
        sequence.lost_tails(
            keys.index, keys.progress, keys.scanning, keys.deleted, keys.listed, last_bucket
        ),
        partition_nr.misplaced_events(keys.placed, keys.deleted, target_partition_size),
        payload.null_payloads(keys.placed, keys.deleted, keys.unwritable),
    ]
    return reduce(DataFrame.unionByName, parts)


@shaped(index=shapes.NUMBERED_EVENTS, partitions=shapes.VIEW_SIZES, returns=shapes.FINDINGS)
def warnings(
    index: DataFrame,
    partitions: DataFrame | None,
    size: BucketSize,
    row_bytes: float,
    buckets: Collection[int],
) -> DataFrame:
    """Return the findings of the checks that warn in the time buckets, one for each KEY.

    `index`: at least the events of the buckets that are out of order, and their predecessors.
    `partitions`: all rows of the buckets, of `row_bytes` on average; None if only some persistence
    ids are judged.
    """
    parts = [sequence.out_of_order(index)]
    if partitions is not None:
        parts.append(partition_size.large_partitions(partitions, size, row_bytes))
    return finding.of_buckets(parts, buckets)
