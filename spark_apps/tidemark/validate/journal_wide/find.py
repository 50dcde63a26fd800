"""The findings of the checks that judge a complete journal."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame

from tidemark.journals.pekko.shapes import DELETED, PLACED_MESSAGES, SNAPSHOTS
from tidemark.partitioning.keys import BucketSize
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.findings.finding import one_of_each
from tidemark.validate.journal_wide.bucket_fit import too_fine
from tidemark.validate.journal_wide.message_partitions import event_counts, large_partitions
from tidemark.validate.journal_wide.snapshot_tails import snapshots_beyond


@shaped(
    index=PLACED_MESSAGES,
    deleted=DELETED,
    snapshots=SNAPSHOTS,
    partitions=shapes.VIEW_SIZES,
    returns=shapes.FINDINGS,
)
def find(
    index: DataFrame,
    deleted: DataFrame,
    snapshots: DataFrame | None,
    partitions: DataFrame | None,
    bucket_size: BucketSize,
    row_bytes: float,
) -> DataFrame:
    """Return the findings of the checks of JOURNAL_WIDE, without a time bucket.

    `index`: all messages of the judged persistence ids. `snapshots` were read before them (None
    without a snapshot store), `deleted` after them. `partitions`: all of the tag views; None if
    only some persistence ids are judged.
    """
    parts = [large_partitions(event_counts(index), row_bytes)]
    if partitions is not None:
        parts.append(too_fine(partitions, bucket_size, row_bytes))
    if snapshots is not None:
        parts.append(snapshots_beyond(snapshots, index, deleted))
    return one_of_each(reduce(DataFrame.unionByName, parts))
