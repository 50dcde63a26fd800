"""Bulk reads and writes by the Spark Cassandra Connector; no other module names it."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from tidemark.errors import CassandraUnavailable
from tidemark.settings import Settings

_FORMAT = "org.apache.spark.sql.cassandra"


def connect(spark: SparkSession, settings: Settings) -> None:
    """Point a session at the cluster.

    Set at run time and not as `--conf`: pyspark hands every setting it knows before the JVM
    starts to that JVM's command line, where anybody can read a password.
    """
    hosts = settings.contact_points
    conf = {
        "spark.cassandra.connection.host": ",".join(f"{host}:{port}" for host, port in hosts),
        "spark.cassandra.connection.port": str(hosts[0][1]),
        "spark.cassandra.input.consistency.level": settings.cassandra_consistency.upper(),
        "spark.cassandra.output.consistency.level": settings.cassandra_consistency.upper(),
        "spark.cassandra.input.split.sizeInMB": "64",
        "spark.cassandra.input.fetch.sizeInRows": "5000",
        # The default of 1 KiB makes single-row batches of events; batches never span partitions.
        "spark.cassandra.output.batch.size.bytes": "65536",
        "spark.cassandra.output.concurrent.writes": "16",
    }
    if settings.cassandra_username:
        conf["spark.cassandra.auth.username"] = settings.cassandra_username
        conf["spark.cassandra.auth.password"] = settings.cassandra_password.get_secret_value()
    for key, value in conf.items():
        spark.conf.set(key, value)


def read(spark: SparkSession, keyspace: str, table: str, *columns: str) -> DataFrame:
    """A scan of the named columns of a table; filters on its keys are pushed down."""
    frame = spark.read.format(_FORMAT).options(keyspace=keyspace, table=table).load()
    return frame.select(*columns)


def read_partitions(keys: DataFrame, keyspace: str, table: str, *columns: str) -> DataFrame:
    """The rows of exactly the partitions in `keys`, by direct join.

    Args:
        keys: one row per partition; its columns are the whole partition key, by name.
        keyspace: where the table is.
        table: its name.
        columns: what to read; the partition key may be among them.

    Raises:
        CassandraUnavailable: the plan would scan the whole table instead.
    """
    spark = keys.sparkSession
    stored = (
        spark.read.format(_FORMAT)
        .options(keyspace=keyspace, table=table, directJoinSetting="on")
        .load()
        .select(*dict.fromkeys([*keys.columns, *columns]))
    )
    joined = keys.join(stored, on=keys.columns, how="inner").select(*columns)
    if "Cassandra Direct Join" not in _plan(joined):
        raise CassandraUnavailable(
            f"the plan scans {keyspace}.{table} instead of reading {len(keys.columns)}-column keys",
            do="this is a defect of Tidemark; please report it with the connector's version",
        )
    return joined


def write(
    frame: DataFrame,
    keyspace: str,
    table: str,
    *,
    keep_nulls: bool = False,
    write_time: str | None = None,
) -> None:
    """Upsert all rows; column names are those of the table.

    Args:
        frame: the rows.
        keyspace: where the table is.
        table: its name.
        keep_nulls: write nulls as deletions of the cell; by default they are left unset, as the
            Pekko plugin leaves columns that an event does not have.
        write_time: a column that holds each row's write timestamp in microseconds; it is not
            stored. By default the time of writing.
    """
    writer = (
        frame.write.format(_FORMAT)
        .mode("append")
        .options(keyspace=keyspace, table=table)
        .option("spark.cassandra.output.ignoreNulls", str(not keep_nulls).lower())
    )
    if write_time is not None:
        writer = writer.option("writetime", write_time)
    writer.save()


def _plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())
