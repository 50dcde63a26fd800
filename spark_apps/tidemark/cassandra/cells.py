"""Bulk reads of cells as texts, with their write times and remaining TTLs.

The connector's frames cut decimals to 18 places and read `writetime` and `ttl` only of named
columns. Here Cassandra itself turns each value into text, so that nothing is lost, and the rows
come through the connector's RDDs. A value is the text inside of its JSON: `10.50`, `ann`,
`2024-03-01 12:00:00.000Z`, `0x00ff`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.cassandra import connector, row_sizes
from tidemark.spark import gateway

_CONNECTOR = "com.datastax.spark.connector"
_ROW = "org.apache.spark.sql.catalyst.expressions.UnsafeRow"
_FLOATING = {"double": T.DoubleType(), "float": T.FloatType()}
"""Types of which JSON lacks some values, such as NaN; Spark has all values."""
_WORDS = ("ascii", "text")
"""Types whose JSON has escapes."""
_PAGE_ROWS = 1000
_PAGE_BYTES = 4 << 20
"""The most bytes in one page: the server keeps complete rows in memory, several times."""


def written_at(column: str) -> str:
    """Return the name of the column with the write time of a column, in microseconds."""
    return f"tidemark_written_{column}"


def lives_for(column: str) -> str:
    """Return the name of the column with a column's remaining TTL in seconds; null for none."""
    return f"tidemark_lives_{column}"


def scan(
    spark: SparkSession,
    keyspace: str,
    table: str,
    kinds: Mapping[str, str],
    conditions: Sequence[tuple[str, str]] = (),
) -> DataFrame:
    """Read columns of a table as texts, under the columns' names.

    `kinds` are the CQL types of the columns to read. Cassandra evaluates `conditions`, each a
    condition with one `?` and its value.
    """
    reading = _Reading(spark, (keyspace, table), kinds, (), ())
    functions = gateway.named(spark, _CONNECTOR).SparkContextFunctions(
        gateway.context_of(spark).sc()
    )
    rows = functions.cassandraTable(
        *(keyspace, table, reading.connection, reading.settings, reading.tag, reading.reader, None)
    ).select(reading.columns)
    for condition, value in conditions:
        rows = rows.where(condition, gateway.sequence(spark, [value]))
    return reading.frame(rows)


def of_rows(
    keys: DataFrame,
    keyspace: str,
    table: str,
    kinds: Mapping[str, str],
    write_times: Sequence[str] = (),
    lives: Sequence[str] = (),
) -> DataFrame:
    """Read cells of rows by their complete keys; a key without a row in the table has none here.

    `keys` has the columns of the primary key, as texts or types that the connector converts.
    `kinds` are the CQL types of the columns to read. The write times of the columns in
    `write_times` become columns by `written_at`, the TTLs of those in `lives` by `lives_for`.
    """
    spark = keys.sparkSession
    reading = _Reading(spark, (keyspace, table), kinds, write_times, lives)
    row = gateway.class_tag(spark, "org.apache.spark.sql.Row")
    joined = (
        gateway.named(spark, _CONNECTOR)
        .RDDFunctions(gateway.dataset(keys).rdd())
        .joinWithCassandraTable(
            *(keyspace, table, reading.some(reading.columns)),
            reading.some([reading.column(name) for name in keys.columns]),
            *(reading.settings, reading.connection, reading.tag, reading.reader, None, row),
            gateway.named(spark, f"{_CONNECTOR}.writer.SqlRowWriter$Factory$"),
        )
    )
    pairs = gateway.named(spark, "org.apache.spark.api.java").JavaPairRDD
    return reading.frame(pairs(joined, row, reading.tag).values().rdd())


class _Reading:
    """The arguments of the connector for a read, and the frame of its result."""

    def __init__(
        self,
        spark: SparkSession,
        table: tuple[str, str],
        kinds: Mapping[str, str],
        write_times: Sequence[str],
        lives: Sequence[str],
    ) -> None:
        self._spark, self._kinds = spark, kinds
        self._times = {
            **{written_at(name): ("WriteTime", name) for name in write_times},
            **{lives_for(name): ("TTL", name) for name in lives},
        }
        conf = connector.session_conf(spark)
        page_rows = min(_PAGE_ROWS, max(1, int(_PAGE_BYTES / row_sizes.expected(spark, *table))))
        conf.set("spark.cassandra.input.fetch.sizeInRows", str(page_rows))
        self.connection = gateway.named(spark, f"{_CONNECTOR}.cql.CassandraConnector$").apply(conf)
        self.settings = gateway.named(spark, f"{_CONNECTOR}.rdd.ReadConf$").fromSparkConf(conf)
        self.tag = gateway.class_tag(spark, _ROW)
        self._schema = T.StructType(
            [
                T.StructField(f"c{index}", _FLOATING.get(kind, T.StringType()))
                for index, kind in enumerate(kinds.values())
            ]
            + [
                T.StructField(name, T.LongType() if function == "WriteTime" else T.IntegerType())
                for name, (function, _) in self._times.items()
            ]
        )
        readers = gateway.named(spark, f"{_CONNECTOR}.datasource")
        self.reader = readers.UnsafeRowReaderFactory(gateway.struct(spark, self._schema))
        references = gateway.named(spark, _CONNECTOR)
        self.columns = gateway.sequence(
            spark,
            [
                self.column(name) if kind in _FLOATING else self._as_json(name)
                for name, kind in kinds.items()
            ]
            + [
                getattr(references, function)(name, self._nothing())
                for function, name in self._times.values()
            ],
        )

    def some(self, columns: Any) -> Any:
        """Return a selection of columns."""
        selected = gateway.sequence(self._spark, columns) if isinstance(columns, list) else columns
        return gateway.named(self._spark, f"{_CONNECTOR}.SomeColumns$").apply(selected)

    def column(self, name: str) -> Any:
        """Return a column by its name."""
        columns = gateway.named(self._spark, f"{_CONNECTOR}.ColumnName$")
        return columns.apply(name, self._nothing())

    def frame(self, rows: Any) -> DataFrame:
        """Return the rows with their columns by name."""
        frame = gateway.frame_of(self._spark, rows, self._schema)
        return frame.select(
            *(
                _text(F.col(f"c{index}"), kind).alias(name)
                for index, (name, kind) in enumerate(self._kinds.items())
            ),
            *self._times,
        )

    def _as_json(self, name: str) -> Any:
        argument = gateway.named(self._spark, "scala.util").Left(self.column(name))
        arguments = gateway.sequence(self._spark, [argument])
        call = gateway.named(self._spark, _CONNECTOR).FunctionCallRef
        return call("tojson", arguments, self._nothing())

    def _nothing(self) -> Any:
        return gateway.named(self._spark, "scala").Option.empty()


def _text(json: Column, kind: str) -> Column:
    """Return the text inside of the JSON of a value."""
    if kind in _FLOATING:
        return json.cast("string")
    non_null = F.when(json != "null", json)
    if kind in _WORDS:
        return F.from_json(F.concat(F.lit('{"v":'), non_null, F.lit("}")), "v string")["v"]
    return F.regexp_replace(non_null, '^"|"$', "")
