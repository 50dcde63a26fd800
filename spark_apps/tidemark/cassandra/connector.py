"""Bulk reads and writes by the Spark Cassandra Connector, which no other module uses directly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.cassandra import connection, row_sizes
from tidemark.cassandra.rate import pause_before, pauses
from tidemark.errors import CassandraUnavailable
from tidemark.settings import Settings
from tidemark.spark import gateway
from tidemark.write_times import WriteTimes

_T = TypeVar("_T")
_FORMAT = "org.apache.spark.sql.cassandra"
_BATCH_BYTES = "spark.cassandra.output.batch.size.bytes"
_BATCHES = "spark.cassandra.output.batch.grouping.buffer.size"
_RATE = "tidemark.writeRate"
_UNKNOWN_TABLE = "Couldn't find"
_WRITE_TIMES: WeakKeyDictionary[SparkSession, WriteTimes] = WeakKeyDictionary()
_PAGE_ROWS = 5000
_PAGE_BYTES = 4 << 20
"""The most bytes in one page of a scan: the server keeps the page in memory several times."""
_JOINED_PAGE_BYTES = 256 << 10
_JOINED_BYTES = 16 << 20
"""The most bytes that one task of a direct join requests at once."""
_CONCURRENT_READS = 32
_UNFINISHED_BATCHES = 1000
_UNFINISHED_BYTES = 64 << 20
"""The most bytes that one task collects in batches before it writes the largest."""


def connect(spark: SparkSession, settings: Settings) -> None:
    """Configure a Spark session for the cluster."""
    conf = {
        **connection.conf(settings),
        "spark.cassandra.input.consistency.level": settings.cassandra_consistency,
        "spark.cassandra.output.consistency.level": settings.cassandra_consistency,
        "spark.cassandra.input.split.sizeInMB": "64",
        "spark.cassandra.input.fetch.sizeInRows": str(_PAGE_ROWS),
        # The default of 1 KiB would put each event in its own batch; no batch spans partitions.
        _BATCH_BYTES: str(settings.cassandra_batch_size),
        "spark.cassandra.output.concurrent.writes": "16",
        _RATE: str(settings.write_rate),
    }
    if settings.is_cassandra_encrypted:
        gateway.named(spark, "java.lang").System.setProperty(*connection.VERIFYING)
    for key, value in conf.items():
        spark.conf.set(key, value)


def stamp_with(spark: SparkSession, write_times: WriteTimes) -> None:
    """Let a session's writes have timestamps of the run instead of the executors'."""
    _WRITE_TIMES[spark] = write_times


def _page(limit: int, row_size: float) -> dict[str, str]:
    rows = min(_PAGE_ROWS, max(1, int(limit / row_size)))
    return {"spark.cassandra.input.fetch.sizeInRows": str(rows)}


def read(
    spark: SparkSession,
    keyspace: str,
    table: str,
    *columns: str,
    keys: DataFrame | None = None,
    optional: Sequence[str] = (),
    ttl_of: str | None = None,
    write_time_of: str | None = None,
) -> DataFrame:
    """Read the named columns of a table by a scan; filters on its keys are pushed down.

    With `keys`, only their rows are read, as by `read_partitions`. `optional` columns are read if
    the table has them. `ttl_of` adds a column `ttl`: the remaining TTL of that column's cell in
    seconds, null if it never expires. `write_time_of` adds a column `write_time`: the write
    timestamp of that column's cell in microseconds, null if there is no cell.
    """
    if keys is not None:
        cell_columns = {"ttl_of": ttl_of, "write_time_of": write_time_of}
        return read_partitions(keys, keyspace, table, *columns, optional=optional, **cell_columns)
    # By default the connector turns joins into direct joins by its estimates, and fails if a
    # condition names a column that was renamed after the read.
    options = {"keyspace": keyspace, "table": table, "directJoinSetting": "off"}
    options |= _page(_PAGE_BYTES, row_sizes.expected(spark, keyspace, table))
    rows = _with_fresh_schema(spark, spark.read.format(_FORMAT).options(**options).load)
    return rows.select(*columns, *_optional_columns(rows, optional, ttl_of, write_time_of).values())


def read_partitions(
    keys: DataFrame,
    keyspace: str,
    table: str,
    *columns: str,
    optional: Sequence[str] = (),
    ttl_of: str | None = None,
    write_time_of: str | None = None,
) -> DataFrame:
    """Read the rows of the partitions in `keys`, by direct join.

    `keys` has one row per partition, with all columns of the partition key and optionally further
    columns of the primary key in its order. `columns` may include key columns. The other arguments
    are those of `read`.

    Raises:
        CassandraUnavailable: the plan would scan the whole table instead.
    """
    spark = keys.sparkSession
    options = {"keyspace": keyspace, "table": table, "directJoinSetting": "on"}
    reader = spark.read.format(_FORMAT).options(**options, **join_options(spark, keyspace, table))
    rows = _with_fresh_schema(spark, reader.load)
    further = _optional_columns(rows, optional, ttl_of, write_time_of)
    rows = rows.select(*dict.fromkeys([*keys.columns, *columns]), *further.values())
    joined = keys.join(rows, on=keys.columns, how="inner").select(*columns, *further)
    _require_in_plan(joined, "Cassandra Direct Join", f"keys of {keyspace}.{table}")
    return joined


def join_options(spark: SparkSession, keyspace: str, table: str) -> dict[str, str]:
    """Return the connector's options that bound the bytes a task of a join requests at once."""
    row_size = row_sizes.expected(spark, keyspace, table)
    reads = min(_CONCURRENT_READS, max(1, int(_JOINED_BYTES / row_size)))
    return {**_page(_JOINED_PAGE_BYTES, row_size), "spark.cassandra.concurrent.reads": str(reads)}


def _with_fresh_schema(spark: SparkSession, use: Callable[[], _T]) -> _T:
    """Use a table; refresh the connector's schema if it does not have a new table yet."""
    try:
        return use()
    except AnalysisException as error:
        if _UNKNOWN_TABLE not in str(error):
            raise
    connector = gateway.named(spark, "com.datastax.spark.connector.cql.CassandraConnector$")
    session = connector.apply(session_conf(spark)).openSession()
    try:
        session.refreshSchema()
    finally:
        session.close()
    return use()


def _optional_columns(
    rows: DataFrame, optional: Sequence[str], ttl_of: str | None, write_time_of: str | None
) -> dict[str, Column]:
    further = {name: F.col(name) for name in optional if name in rows.columns}
    if ttl_of is not None:
        further["ttl"] = F.expr(f"ttl({ttl_of})").alias("ttl")
    if write_time_of is not None:
        further["write_time"] = F.expr(f"writetime({write_time_of})").alias("write_time")
    return further


def require_pushed(frame: DataFrame, condition: str) -> None:
    """Reject a plan in which Cassandra does not evaluate a condition, written as in the plan.

    Raises:
        CassandraUnavailable: the plan would scan the whole table instead.
    """
    _require_in_plan(frame, condition, condition)


def _require_in_plan(frame: DataFrame, expected: str, subject: str) -> None:
    if expected not in gateway.executed_plan(frame):
        raise CassandraUnavailable(
            f"the plan scans the whole table instead of reading {subject}",
            do="this is a defect of Tidemark; please report it with the connector's version",
        )


def repartition_by_key(
    frame: DataFrame, partition_key: Sequence[str], partitions: int
) -> DataFrame:
    """Group rows by the table's partitions if a task would otherwise meet too many of them.

    A task collects the rows of each partition in a separate batch. With too many partitions, it
    writes unfinished batches, at worst one for each row, which costs more than a shuffle.
    `partitions` is the highest number of table partitions that the rows may have.
    """
    if partitions <= _UNFINISHED_BATCHES:
        return frame
    return frame.repartition(*partition_key).sortWithinPartitions(*partition_key)


def write(
    frame: DataFrame,
    keyspace: str,
    table: str,
    *,
    keep_nulls: bool = False,
    write_time: str | None = None,
    time_to_live: int | str = 0,
    in_order: bool = False,
) -> None:
    """Upsert all rows; the column names are those of the table.

    Consecutive rows of one partition of the table are one batch, if they fit.

    - By default nulls are left unset, as the Pekko plugin leaves columns that an event does not
      have; with `keep_nulls`, they delete the cell.
    - `write_time` is a column with each row's write timestamp in microseconds, which is not stored;
      by default all rows have the time when the write begins (`stamp_with`).
    - `time_to_live` is the seconds until the rows expire, 0 for the table's default; or a column
      with each row's seconds, 0 for never, which is not stored.
    - With `in_order`, a task sends a batch only after the previous one is written.
    """
    spark = frame.sparkSession
    # The number of unfinished batches; a row larger than a batch is a separate batch.
    batch_size = max(
        float(spark.conf.get(_BATCH_BYTES) or 0), row_sizes.expected(spark, keyspace, table)
    )
    batches = min(_UNFINISHED_BATCHES, max(1, int(_UNFINISHED_BYTES / batch_size)))
    writer = (
        _paced(frame)
        .write.format(_FORMAT)
        .mode("append")
        .options(keyspace=keyspace, table=table)
        .option("spark.cassandra.output.ignoreNulls", str(not keep_nulls).lower())
        .option(_BATCHES, str(1 if _rate(spark) else batches))
    )
    if write_time is not None:
        writer = writer.option("writetime", write_time)
    elif spark in _WRITE_TIMES:
        writer = writer.option("spark.cassandra.output.timestamp", str(_WRITE_TIMES[spark]()))
    if time_to_live:
        writer = writer.option("ttl", str(time_to_live))
    if in_order:
        writer = writer.option("spark.cassandra.output.concurrent.writes", "1")
    _with_fresh_schema(spark, writer.save)


def delete(keys: DataFrame, keyspace: str, table: str) -> None:
    """Delete rows by key, inside the JVM; the write time is that of the executors' clocks.

    `keys` has the columns of the partition key and of a prefix of the clustering columns; a key
    without all clustering columns deletes every row with that prefix. The connector offers deletes
    only in Scala, and without write times.
    """
    session = keys.sparkSession
    connector = gateway.named(session, "com.datastax.spark.connector")
    conf = session_conf(session)
    if _rate(session):
        conf.set(_BATCHES, "1")
    connector.RDDFunctions(gateway.dataset(_paced(keys)).rdd()).deleteFromCassandra(
        keyspace,
        table,
        some_columns(session, []),
        some_columns(session, keys.columns),
        gateway.named(session, "com.datastax.spark.connector.writer.WriteConf$").fromSparkConf(
            conf
        ),
        gateway.named(session, "com.datastax.spark.connector.cql.CassandraConnector$").apply(conf),
        gateway.named(session, "com.datastax.spark.connector.writer.SqlRowWriter$Factory$"),
    )


def latest_clock(session: SparkSession) -> int:
    """Return the latest clock of the executors that run tasks, in microseconds.

    Deletes of executors until now have no later time.
    """
    tasks = session.sparkContext.defaultParallelism
    milliseconds = F.call_function(
        "java_method", F.lit("java.lang.System"), F.lit("currentTimeMillis")
    )
    [clocks] = (
        session.range(0, tasks, numPartitions=tasks)
        .select(milliseconds.cast("bigint").alias("milliseconds"))
        .agg(F.max("milliseconds").alias("milliseconds"))
        .collect()
    )
    return (int(clocks["milliseconds"]) + 1) * 1000


def session_conf(session: SparkSession) -> Any:
    """Return Scala's SparkConf with the settings of `connect`, which the connector's RDDs need."""
    conf = gateway.context_of(session).sc().getConf()
    converters = gateway.named(session, "scala.collection.JavaConverters")
    settings = converters.mapAsJavaMapConverter(gateway.session_of(session).conf().getAll())
    for key, value in settings.asJava().items():
        if key.startswith("spark.cassandra."):
            conf.set(key, value)
    return conf


def _rate(spark: SparkSession) -> int:
    return int(spark.conf.get(_RATE, "0") or 0)


def _paced(rows: DataFrame) -> DataFrame:
    """Slow down the rows that a writer reads to the rate of the run, shared by all tasks.

    A task pauses before every few rows, so since the start of a write there are never more rows
    than the rate allows. There are no more tasks than cores, and the writer must collect no more
    than one batch: it would send all collected batches at once at the end.
    """
    spark = rows.sparkSession
    rate = _rate(spark)
    if not rate:
        return rows
    # A cancelled task would otherwise go on writing: a writer does not check for cancellation.
    spark.sparkContext.setLocalProperty("spark.job.interruptOnCancel", "true")
    tasks = min(rate, spark.sparkContext.defaultParallelism)
    return rows.coalesce(tasks).where(pause_before(*pauses(rate, tasks)))


def some_columns(session: SparkSession, names: Sequence[str]) -> Any:
    """Return the connector's selection of columns by name."""
    column = gateway.named(session, "com.datastax.spark.connector.ColumnName$")
    nothing = gateway.named(session, "scala").Option.empty()
    columns = gateway.sequence(session, [column.apply(name, nothing) for name in names])
    return gateway.named(session, "com.datastax.spark.connector.SomeColumns$").apply(columns)
