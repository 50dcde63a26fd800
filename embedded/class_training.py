"""Uses what the applications use of Spark, so that those classes get into the archive."""

from __future__ import annotations

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel


def main() -> None:
    """Read, shuffle, number, aggregate, join, keep and write a few rows."""
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
    spark.stop()


if __name__ == "__main__":
    main()
