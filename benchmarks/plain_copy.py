"""The yardstick: the plain connector, its defaults unchanged, writes the rows of a table.

`plain_copy.py KEYSPACE TABLE TARGET_KEYSPACE` reads one table and writes the same rows into the
table of the same name in another keyspace. The last line of its output counts them.
"""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import SparkSession

_FORMAT = "org.apache.spark.sql.cassandra"


def main(keyspace: str, table: str, target: str) -> None:
    """Copy one table."""
    spark = (
        SparkSession.builder.appName("plain copy")
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
    rows = spark.read.format(_FORMAT).options(keyspace=keyspace, table=table).load()
    rows.write.format(_FORMAT).options(keyspace=target, table=table).mode("append").save()
    print(json.dumps({"rows": rows.select(rows.columns[0]).count()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
