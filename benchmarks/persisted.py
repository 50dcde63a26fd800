"""Runs an application that persists what it shuffles, for `benchmarks.shortcuts`.

`persisted.py SCRIPT ARGUMENT...`: in place of `tidemark.spark.shuffle.shuffled_once` the frame is
repartitioned and persisted on disk, which is Spark's public form of the same.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

from tidemark.spark import shuffle


def persisted(frame: DataFrame, key: str) -> DataFrame:
    """Partition the rows by a column, and keep them on disk when they are first read."""
    return frame.repartition(key).persist(StorageLevel.DISK_ONLY)


if __name__ == "__main__":
    _, script, *arguments = sys.argv
    # Before the script imports the modules that take the name from there.
    shuffle.shuffled_once = persisted
    sys.path.insert(0, str(Path(script).parent))
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")
