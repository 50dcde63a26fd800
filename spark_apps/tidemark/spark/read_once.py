"""Frames that are read once, however often they are used.

A journal changes between two reads: numbers, rows and progress must come from the same one. Spark
keeps the rows of a frame where they were computed, and computes them again, by another read, if the
executor that kept them dies. Where executors can die, frames are cut off from what they were read
from: then the job fails, and with it the run (`errors.ExecutorLost`), whose next try begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

from tidemark.spark import gateway
from tidemark.spark.masters import is_local


def kept_once(frame: DataFrame, level: StorageLevel = StorageLevel.MEMORY_AND_DISK) -> DataFrame:
    """Return a frame whose rows are kept from its first use on, until the caller unpersists it.

    Args:
        frame: any frame.
        level: where the driver's own process keeps rows; executors do so in memory and on disk.
    """
    if is_local(str(frame.sparkSession.sparkContext.master)):
        return frame.persist(level)
    return frame.localCheckpoint(eager=False)


@contextmanager
def kept(
    frame: DataFrame, partitioned_by: Sequence[str] = (), tasks: int = 0
) -> Iterator[DataFrame]:
    """Yield a frame of the same rows, which are kept on disk while the block works with them.

    Args:
        frame: the rows.
        partitioned_by: columns whose equal values share a partition; grouping or joining by them
            needs no other shuffle.
        tasks: the number of these partitions.
    """
    if partitioned_by:
        frame = frame.repartition(tasks, *partitioned_by)
    stored = kept_once(frame, StorageLevel.DISK_ONLY)
    try:
        yield gateway.leaf(stored, partitioned_by)
    finally:
        stored.unpersist()


def shuffled_once(frame: DataFrame, key: str) -> DataFrame:
    """Partition the rows of a frame by a column, and keep them, on disk if they are many.

    The caller unpersists the frame.

    Args:
        frame: a frame of any columns.
        key: the column whose equal values share a partition; grouping, numbering or joining by it
            afterwards needs no other shuffle.
    """
    return kept_once(frame.repartition(key), StorageLevel.DISK_ONLY)
