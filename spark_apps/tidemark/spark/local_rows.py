"""A few rows of the driver as a frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def local_rows(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
    """The rows as a local relation, in as many partitions as the session has tasks at a time.

    `createDataFrame` of a list makes an RDD that Python workers unpickle, every time that the frame
    is used: a tenth of a second of CPU, and a second for the first. By way of Arrow the rows are
    in the plan. Arrow must be enabled, as `tidemark.spark_session` does.

    Args:
        spark: the session.
        rows: values in the order of the columns; None is null.
        schema: the columns in DDL, none nested, such as `tag string, time_bucket bigint`.
    """
    # Here, so that a run with nothing to do does not wait for it.
    import pandas as pd

    names = [column.split()[0] for column in schema.split(",")]
    # Of the type object: pandas would make floats of whole numbers beside a null.
    return spark.createDataFrame(pd.DataFrame(list(rows), columns=names, dtype=object), schema)
