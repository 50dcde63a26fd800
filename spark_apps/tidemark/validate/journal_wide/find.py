"""The findings of the checks that judge a journal as a whole."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame

from tidemark.journals.pekko.shapes import DELETED, PLACED_MESSAGES, SNAPSHOTS
from tidemark.partitioning.keys import BucketSize
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.findings.finding import one_of_each
from tidemark.validate.journal_wide.bucket_fit import too_fine
from tidemark.validate.journal_wide.message_partitions import held, large_partitions
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
    """Return the findings of the checks of JOURNAL_WIDE, in no time bucket.

    Args:
        index: all messages of the persistence ids that are judged.
        deleted: read after them.
        snapshots: read before them; None without a snapshot store.
        partitions: all of the tag views; None if only some persistence ids are judged.
        bucket_size: of the tag views.
        row_bytes: `journal_keys.row_bytes`.
    """
    parts = [large_partitions(held(index), row_bytes)]
    if partitions is not None:
        parts.append(too_fine(partitions, bucket_size, row_bytes))
    if snapshots is not None:
        parts.append(snapshots_beyond(snapshots, index, deleted))
    return one_of_each(reduce(DataFrame.unionByName, parts))
