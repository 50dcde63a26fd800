"""Reads ranges of messages within partitions, one request for each range, inside the JVM.

The connector's joins only compare columns for equality. Its RDD binds by name the values that a row
writer writes: here the partition key and, for the conditions, the bounds of a range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession

from tidemark.cassandra import connector
from tidemark.journals.pekko import frames, message_rows, shapes
from tidemark.settings import Settings
from tidemark.spark import gateway
from tidemark.spark.shapes import shaped

_CONNECTOR = "com.datastax.spark.connector"
_KEY = ("persistence_id", "partition_nr")
_COLUMN = "sequence_nr"
_BOUNDS = ("first_nr", "last_nr")
_ROW = "org.apache.spark.sql.Row"
_UNSAFE_ROW = "org.apache.spark.sql.catalyst.expressions.UnsafeRow"


@shaped(ranges=shapes.RANGES, returns=shapes.MESSAGES)
def messages(ranges: DataFrame, settings: Settings, *payload: str) -> DataFrame:
    """Read the messages of unique ranges, with further columns `payload`."""
    older = message_rows.older_columns(payload, with_has_payload=False)
    stored = read(ranges, settings, "timestamp", "tags", *payload, optional=older)
    events = message_rows.as_newer(stored.drop("partition_nr"), with_has_payload=False)
    return frames.with_time(events, settings)


@shaped(ranges=shapes.RANGES, returns=shapes.PARTITIONED_EVENTS)
def read(
    ranges: DataFrame,
    settings: Settings,
    *columns: str,
    optional: Sequence[str] = (),
    only: Literal["first", "last"] | None = None,
) -> DataFrame:
    """Read columns of the messages in unique ranges; a range without messages gives no row.

    The key up to the sequence nr is always read, `optional` columns if the table has them. `only`
    reads only the message with the lowest or the highest sequence nr of each range.
    """
    spark, keyspace, table = ranges.sparkSession, settings.journal_keyspace, settings.journal_table
    columns = tuple(dict.fromkeys([*_KEY, _COLUMN, *columns]))
    conf = connector.session_conf(spark)
    for name, value in connector.join_options(spark, keyspace, table).items():
        conf.set(name, value)
    connection = gateway.named(spark, f"{_CONNECTOR}.cql.CassandraConnector$").apply(conf)
    schema = connector.read(spark, keyspace, table, *columns, optional=optional).schema
    rdds = gateway.named(spark, f"{_CONNECTOR}.rdd")
    option = gateway.named(spark, "scala").Option.apply
    row, unsafe_row = gateway.class_tag(spark, _ROW), gateway.class_tag(spark, _UNSAFE_ROW)
    descending = gateway.named(spark, f"{_CONNECTOR}.rdd.ClusteringOrder$Descending$")
    conditions = [f"{_COLUMN} >= :{_BOUNDS[0]}", f"{_COLUMN} <= :{_BOUNDS[1]}"]
    pairs = rdds.CassandraJoinRDD(
        gateway.dataset(ranges.select(*_KEY, *_BOUNDS)).rdd(),
        *(keyspace, table, connection),
        connector.some_columns(spark, schema.names),
        connector.some_columns(spark, _KEY),
        rdds.CqlWhereClause(gateway.sequence(spark, conditions), gateway.sequence(spark, [])),
        option(rdds.SparkPartitionLimit(1) if only else None),
        option(descending if only == "last" else None),
        gateway.named(spark, f"{_CONNECTOR}.rdd.ReadConf$").fromSparkConf(conf),
        option(None),
        option(_writer(spark, keyspace, table, connection)),
        *(row, unsafe_row),
        gateway.named(spark, f"{_CONNECTOR}.writer.SqlRowWriter$Factory$"),
        gateway.named(spark, f"{_CONNECTOR}.datasource").UnsafeRowReaderFactory(
            gateway.struct(spark, schema)
        ),
    )
    pair_rdd = gateway.named(spark, "org.apache.spark.api.java").JavaPairRDD
    return gateway.frame_of(spark, pair_rdd(pairs, row, unsafe_row).values().rdd(), schema)


def _writer(spark: SparkSession, keyspace: str, table: str, connection: Any) -> Any:
    """Return the writer that binds the key and the bounds of a range.

    It takes the types of these values from the definition of a table: here a definition with the
    bounds as columns.
    """
    stored = gateway.named(spark, f"{_CONNECTOR}.util.package$").tableFromCassandra(
        connection, keyspace, table
    )
    definitions = gateway.named(spark, f"{_CONNECTOR}.cql")
    role = gateway.named(spark, f"{_CONNECTOR}.cql.RegularColumn$")
    column_type = stored.columnByName().apply(_COLUMN).columnType()
    bounds = [definitions.ColumnDef(name, role, column_type) for name in _BOUNDS]
    with_bounds = definitions.TableDef(
        *(keyspace, table, stored.partitionKey(), stored.clusteringColumns()),
        gateway.sequence(spark, bounds),
        *(stored.indexes(), stored.isView(), stored.ifNotExists(), stored.tableOptions()),
    )
    bound = [with_bounds.columnByName().apply(name).ref() for name in (*_KEY, *_BOUNDS)]
    return gateway.named(spark, f"{_CONNECTOR}.writer").SqlRowWriter(
        with_bounds, gateway.sequence(spark, bound).toIndexedSeq()
    )
