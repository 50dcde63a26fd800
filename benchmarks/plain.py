"""A Spark session with the plain connector, its defaults unchanged: the yardstick's."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

FORMAT = "org.apache.spark.sql.cassandra"


def session(name: str) -> SparkSession:
    """Connect as the environment of `Bench` says."""
    spark = (
        SparkSession.builder.appName(name)
        .master(os.environ["TIDEMARK_SPARK_MASTER"])
        .config("spark.jars", os.environ["TIDEMARK_SPARK_JARS"])
        .config("spark.driver.memory", "2g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.extensions", "com.datastax.spark.connector.CassandraSparkExtensions")
        .getOrCreate()
    )
    host, _, port = os.environ["TIDEMARK_CASSANDRA_HOSTS"].rpartition(":")
    spark.conf.set("spark.cassandra.connection.host", host)
    spark.conf.set("spark.cassandra.connection.port", port)
    spark.conf.set("spark.cassandra.auth.username", os.environ["TIDEMARK_CASSANDRA_USERNAME"])
    spark.conf.set("spark.cassandra.auth.password", os.environ["TIDEMARK_CASSANDRA_PASSWORD"])
    return spark
