"""Frames that are read once, however often they are used.

A journal changes between two reads: numbers, rows and progress must come from the same read. Spark
keeps the rows of a frame where they were computed, and if the executor that kept them dies, it
reads and computes them again. Where executors can die, frames are therefore cut off from their
source: the job and the run then fail (`errors.ExecutorLost`), and the next try starts again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

from tidemark.spark import gateway
from tidemark.spark.masters import is_local


def kept_once(frame: DataFrame, level: StorageLevel = StorageLevel.MEMORY_AND_DISK) -> DataFrame:
    """Return a frame whose rows are kept from its first use until the caller unpersists it.

    `level` is where a local master keeps rows; executors keep them in memory and on disk.
    """
    if is_local(str(frame.sparkSession.sparkContext.master)):
        return frame.persist(level)
    return frame.localCheckpoint(eager=False)


@contextmanager
def kept(
    frame: DataFrame, partitioned_by: Sequence[str] = (), tasks: int = 0
) -> Iterator[DataFrame]:
    """Yield a frame of the same rows, which are kept on disk during the block.

    Equal values of the columns in `partitioned_by` share one of `tasks` partitions; grouping or
    joining by them needs no other shuffle.
    """
    if partitioned_by:
        frame = frame.repartition(tasks, *partitioned_by)
    kept_frame = kept_once(frame, StorageLevel.DISK_ONLY)
    try:
        yield gateway.leaf(kept_frame, partitioned_by)
    finally:
        kept_frame.unpersist()


def shuffled_once(frame: DataFrame, key: str) -> DataFrame:
    """Partition the rows of a frame by the column `key`, and keep them until the caller unpersists.

    Grouping, numbering or joining by `key` afterwards needs no other shuffle.
    """
    return kept_once(frame.repartition(key), StorageLevel.DISK_ONLY)
