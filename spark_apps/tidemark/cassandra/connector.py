"""Bulk reads and writes by the Spark Cassandra Connector, which no other module names."""

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
"""The most bytes in one page of a scan: the server holds the page several times."""
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
    """Let a session's writes have the timestamps of a run, and not those of executors."""
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

    With `keys`, only their rows are read, as by `read_partitions`. `optional` are columns that are
    read if the table has them. With `ttl_of`, there is a further column `ttl`: the remaining
    lifetime of that column's cell in seconds, null if it never expires. With `write_time_of`, a
    column `write_time`: that cell's write timestamp in microseconds, null if there is no cell.
    """
    if keys is not None:
        more = {"ttl_of": ttl_of, "write_time_of": write_time_of}
        return read_partitions(keys, keyspace, table, *columns, optional=optional, **more)
    # By default the connector turns joins into direct joins by its estimates, and fails if a
    # condition names a column that was renamed after the read.
    options = {"keyspace": keyspace, "table": table, "directJoinSetting": "off"}
    options |= _page(_PAGE_BYTES, row_sizes.expected(spark, keyspace, table))
    stored = _known(spark, spark.read.format(_FORMAT).options(**options).load)
    return stored.select(*columns, *_further(stored, optional, ttl_of, write_time_of).values())


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

    Args:
        keys: one row per partition, with the whole partition key and optionally further columns of
            the primary key in its order, by name.
        keyspace: keyspace of the table.
        table: name of the table.
        columns: columns to read; key columns may be among them.
        optional: as in `read`.
        ttl_of: as in `read`.
        write_time_of: as in `read`.

    Raises:
        CassandraUnavailable: the plan would scan the whole table instead.
    """
    spark = keys.sparkSession
    options = {"keyspace": keyspace, "table": table, "directJoinSetting": "on"}
    reader = spark.read.format(_FORMAT).options(**options, **join_options(spark, keyspace, table))
    stored = _known(spark, reader.load)
    further = _further(stored, optional, ttl_of, write_time_of)
    stored = stored.select(*dict.fromkeys([*keys.columns, *columns]), *further.values())
    joined = keys.join(stored, on=keys.columns, how="inner").select(*columns, *further)
    _require_in_plan(joined, "Cassandra Direct Join", f"keys of {keyspace}.{table}")
    return joined


def join_options(spark: SparkSession, keyspace: str, table: str) -> dict[str, str]:
    """Return the options of the connector that bound what a task of a join requests at once."""
    row_size = row_sizes.expected(spark, keyspace, table)
    reads = min(_CONCURRENT_READS, max(1, int(_JOINED_BYTES / row_size)))
    return {**_page(_JOINED_PAGE_BYTES, row_size), "spark.cassandra.concurrent.reads": str(reads)}


def _known(spark: SparkSession, use: Callable[[], _T]) -> _T:
    """Use a table, which the connector's session would know up to a second after its creation."""
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


def _further(
    stored: DataFrame, optional: Sequence[str], ttl_of: str | None, write_time_of: str | None
) -> dict[str, Column]:
    further = {name: F.col(name) for name in optional if name in stored.columns}
    if ttl_of is not None:
        further["ttl"] = F.expr(f"ttl({ttl_of})").alias("ttl")
    if write_time_of is not None:
        further["write_time"] = F.expr(f"writetime({write_time_of})").alias("write_time")
    return further


def require_pushed(frame: DataFrame, condition: str) -> None:
    """Refuse a plan in which Cassandra does not evaluate a condition, written as in the plan.

    Raises:
        CassandraUnavailable: the plan would scan the whole table instead.
    """
    _require_in_plan(frame, condition, condition)


def _require_in_plan(frame: DataFrame, expected: str, wanted: str) -> None:
    if expected not in gateway.executed_plan(frame):
        raise CassandraUnavailable(
            f"the plan scans the whole table instead of reading {wanted}",
            do="this is a defect of Tidemark; please report it with the connector's version",
        )


def repartition_by_key(
    frame: DataFrame, partition_key: Sequence[str], partitions: int
) -> DataFrame:
    """Group rows by the table's partitions if a task would otherwise meet too many of them.

    A task collects the rows of each partition in a separate batch. With too many partitions, it
    writes unfinished batches, at worst one for each row, which costs more than a shuffle.

    Args:
        frame: the rows.
        partition_key: columns of the frame that form the table's partition key.
        partitions: highest number of partitions that the rows may have.
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

    Rows of one partition of the table that come one after the other are one batch, if they fit.

    Args:
        frame: the rows.
        keyspace: keyspace of the table.
        table: name of the table.
        keep_nulls: whether to write nulls as deletions of the cell; by default nulls are left
            unset, as the Pekko plugin leaves columns that an event does not have.
        write_time: column with each row's write timestamp in microseconds, which is not stored; by
            default all have the time at which the write begins, as `stamp_with` tells it.
        time_to_live: seconds until the rows expire, where 0 means the table's default; or a column
            with each row's seconds, where 0 means never, which is not stored.
        in_order: whether a task sends a batch only after the one before it is written.
    """
    spark = frame.sparkSession
    # The number of unfinished batches; a row larger than a batch makes a batch of its own.
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
    _known(spark, writer.save)


def delete(keys: DataFrame, keyspace: str, table: str) -> None:
    """Delete rows by key, inside the JVM; the deletions carry the time of deletion, by executors.

    The connector offers deletes to Scala only, and none with a write time: calls by the gateway.

    Args:
        keys: columns of the partition key and of a prefix of the clustering columns, by name; a
            key without all clustering columns deletes every row below its prefix.
        keyspace: keyspace of the table.
        table: name of the table.
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

    Deletes that executors have made until now carry no later time.
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
    """Return Scala's SparkConf with what `connect` has set, which the connector's RDDs ask for."""
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
    """Hold back the rows that go into a writer, if the run has a rate; it is shared by its tasks.

    A task pauses before each few rows, so all of a write are never more than the rate allows since
    its start. There are no more tasks than cores, and the writer must hold no more than one batch:
    what it collects it would send at once at the end.
    """
    spark = rows.sparkSession
    rate = _rate(spark)
    if not rate:
        return rows
    # A cancelled task would otherwise go on pausing and writing: a writer does not ask.
    spark.sparkContext.setLocalProperty("spark.job.interruptOnCancel", "true")
    tasks = min(rate, spark.sparkContext.defaultParallelism)
    return rows.coalesce(tasks).where(pause_before(*pauses(rate, tasks)))


def some_columns(session: SparkSession, names: Sequence[str]) -> Any:
    """Return the connector's selection of columns by name."""
    column = gateway.named(session, "com.datastax.spark.connector.ColumnName$")
    nothing = gateway.named(session, "scala").Option.empty()
    listed = gateway.sequence(session, [column.apply(name, nothing) for name in names])
    return gateway.named(session, "com.datastax.spark.connector.SomeColumns$").apply(listed)
