"""Conversion of a few rows on the driver to a frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def local_rows(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
    """Make a local relation of the rows, with as many partitions as the session runs tasks at once.

    `schema` is DDL without nested columns, such as `tag string, time_bucket bigint`.

    `createDataFrame` of a list makes an RDD that Python workers unpickle at each use of the frame,
    which takes 0.1 s of CPU, and 1 s the first time. With Arrow the rows are in the plan. Arrow
    must be enabled, as in `tidemark.spark_session`.
    """
    # Imported here so that a run with nothing to do does not wait for pandas.
    import pandas as pd

    names = [column.split()[0] for column in schema.split(",")]
    # dtype object, since pandas turns integers into floats in a column with a null.
    return spark.createDataFrame(pd.DataFrame(list(rows), columns=names, dtype=object), schema)
