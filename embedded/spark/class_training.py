"""Uses what the applications use of Spark, so that those classes get into the archive.

Its arguments are the jars of the connector.
"""

from __future__ import annotations

import sys
import zipfile
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel


def main() -> None:
    """Read, shuffle, number, aggregate, join, keep and write a few rows; load the connector."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    events = spark.range(1000).select(
        (F.col("id") % 10).cast("string").alias("persistence_id"),
        F.col("id").alias("sequence_nr"),
        F.array(F.lit("a"), F.lit("b")).alias("tags"),
        F.encode(F.to_json(F.struct("id")), "utf-8").alias("event"),
    )
    kept = events.repartition("persistence_id").persist(StorageLevel.DISK_ONLY)
    tagged = kept.select("*", F.posexplode_outer("tags").alias("position", "tag"))
    by_series = Window.partitionBy("persistence_id", "tag").orderBy("sequence_nr")
    numbered = tagged.withColumn("number", F.row_number().over(by_series).cast("bigint"))
    numbered.write.format("noop").mode("append").save()
    last = numbered.groupBy("persistence_id", "tag").agg(F.max("number").alias("number"))
    names = spark.createDataFrame([("1", 1)], "persistence_id string, rank bigint")
    joined = last.join(F.broadcast(names), on="persistence_id", how="left").localCheckpoint()
    numbers = F.map_from_entries(F.collect_list(F.struct("tag", "number")))
    joined.groupBy("persistence_id").agg(numbers.alias("numbers")).collect()
    kept.createOrReplaceTempView("events")
    query = "SELECT from_json(decode(event, 'UTF-8'), 'id BIGINT') AS event, count(*) AS n"
    spark.sql(f"{query} FROM events GROUP BY 1 ORDER BY 2 LIMIT 3").collect()
    load_classes(spark, sys.argv[1:])
    spark.stop()


def load_classes(spark: SparkSession, jars: list[str]) -> None:
    """Load the classes of jars by name: there may be no server to use the connector on.

    Of the libraries that are shaded into them few are used: they would cost more than they save.
    """
    jvm: Any = spark._jvm
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()
    for jar in jars:
        for name in zipfile.ZipFile(jar).namelist():
            is_own = "/shaded/" not in name and not name.startswith("META-INF")
            if is_own and name.endswith(".class"):
                # Some need libraries that are not there, and are never used.
                with suppress(Py4JJavaError):
                    jvm.java.lang.Class.forName(name[:-6].replace("/", "."), False, loader)


if __name__ == "__main__":
    main()
