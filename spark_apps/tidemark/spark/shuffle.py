"""Frames that are read and shuffled once, however often they are used."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel


def shuffled_once(frame: DataFrame, key: str) -> DataFrame:
    """Partition the rows of a frame by a column, and keep them on disk when they are first read.

    Each use gets the same rows; Spark reads the source again only for the rows of a lost executor.
    The caller unpersists the frame.

    Args:
        frame: a frame of any columns.
        key: the column whose equal values share a partition; grouping, numbering or joining by it
            afterwards needs no other shuffle.
    """
    return frame.repartition(key).persist(StorageLevel.DISK_ONLY)
