"""Frames that are shuffled once and read from the files of that shuffle at each use."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidemark.spark import gateway

_ADAPTIVE = "spark.sql.adaptive.enabled"


def shuffled_once(frame: DataFrame, key: str) -> DataFrame:
    """Partition the rows of a frame by a column, reading the frame's source only once.

    Persisting a shuffled frame would write all rows a second time, beside the files of the shuffle,
    which takes a tenth of the CPU of a rebuild. The files of the shuffle stay as long as the frame,
    so that each use gets the same rows; Spark reads the source again only for the rows of a lost
    executor.

    Args:
        frame: a frame of any columns.
        key: the column whose equal values share a partition; grouping, numbering or joining by it
            afterwards needs no other shuffle.
    """
    spark = frame.sparkSession
    adaptive = spark.conf.get(_ADAPTIVE)
    # An adaptive plan does not declare the partitioning of its rows.
    spark.conf.set(_ADAPTIVE, "false")
    try:
        shuffled = gateway.dataset(frame.repartition(key))
        rows = shuffled.queryExecution().toRdd()
    finally:
        spark.conf.set(_ADAPTIVE, str(adaptive))
    relation = gateway.named(spark, "org.apache.spark.sql.execution.LogicalRDD$")
    plan = relation.fromDataset(rows, shuffled, False)
    datasets = gateway.named(spark, "org.apache.spark.sql.Dataset$")
    return DataFrame(datasets.ofRows(gateway.session_of(spark), plan), spark)
