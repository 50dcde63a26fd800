"""A frame that is shuffled once, and read from the files of that shuffle as often as it is used."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidemark.spark import gateway

_ADAPTIVE = "spark.sql.adaptive.enabled"


def shuffled_once(frame: DataFrame, key: str) -> DataFrame:
    """The rows of a frame, partitioned by a column; what it is made of is read once.

    To persist a shuffled frame writes all of it a second time, beside the files of the shuffle: a
    tenth of the CPU of a rebuild. Those files stay as long as the frame, so that whoever uses it
    again gets the same rows, and Spark reads the source again only for those of a lost executor.

    Args:
        frame: of any columns.
        key: rows of one value of this column come into one partition; what groups, numbers or
            joins by it afterwards needs no other shuffle.
    """
    spark = frame.sparkSession
    adaptive = spark.conf.get(_ADAPTIVE)
    # An adaptive plan does not tell how its rows are partitioned.
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
