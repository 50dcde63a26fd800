"""Reads by primary keys in bulk: each task stages its keys as arrays of a few statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.journals.r2dbc import queries
from tidemark.journals.r2dbc.tables import JournalTable, journal_connection
from tidemark.partitioning import columns
from tidemark.partitioning.keys import NUMBER_OF_SLICES
from tidemark.postgres import jdbc
from tidemark.postgres.connections import PostgresConnection
from tidemark.postgres.session import session
from tidemark.settings import Settings
from tidemark.spark.python_workers import prepare_python_workers
from tidemark.spark.shapes import ddl

if TYPE_CHECKING:
    import pyarrow as pa

_TABLE_NR = "table_nr"


def read(
    keys: DataFrame,
    settings: Settings,
    tables: Sequence[JournalTable],
    statement: Callable[[JournalTable], str],
    schema: Mapping[str, str],
    *,
    page_rows: int = jdbc.FETCH_ROWS,
) -> DataFrame:
    """Read the rows of keys, by a statement with an array for each column of the keys.

    The first column of the keys is the persistence id. A task reads all keys of its partition, some
    thousand with each statement, and returns pages of `page_rows` rows. `schema` has Spark's types
    of the statement's columns.
    """
    table_nr = F.lit(0)
    if len(tables) > 1:
        slice_number = columns.slice_of(F.col("persistence_id"))
        table_nr = F.call_function("div", slice_number, F.lit(NUMBER_OF_SLICES // len(tables)))
    prepare_python_workers(keys.sparkSession, with_postgres=True)
    placed = keys.withColumn(_TABLE_NR, table_nr.cast("int"))
    server, statements = journal_connection(settings), [statement(table) for table in tables]
    names = tuple(keys.columns)

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        return _rows(batches, server, statements, names, schema, page_rows)

    return placed.mapInArrow(rows, ddl(schema))


def _rows(
    batches: Iterable[pa.RecordBatch],
    server: PostgresConnection,
    statements: Sequence[str],
    names: Sequence[str],
    schema: Mapping[str, str],
    page_rows: int,
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in batches:
        keys = pa.Table.from_batches([batch])
        for nr in pc.unique(keys[_TABLE_NR]).to_pylist():
            of_table = keys.filter(pc.equal(keys[_TABLE_NR], nr)).select(list(names))
            for first in range(0, of_table.num_rows, queries.KEYS_OF_A_STATEMENT):
                chunk = of_table.slice(first, queries.KEYS_OF_A_STATEMENT)
                arrays = [column.to_pylist() for column in chunk.columns]
                yield from _pages(server, statements[nr], arrays, schema, page_rows)


def _pages(
    server: PostgresConnection,
    statement: str,
    arrays: Sequence[Sequence[object]],
    schema: Mapping[str, str],
    page_rows: int,
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    arrow = pa.schema([pa.field(name, _arrow_type(kind)) for name, kind in schema.items()])
    with (
        session(server, autocommit=False, options=queries.BY_KEY) as opened,
        opened.cursor(name="tidemark", binary=True) as cursor,
    ):
        cursor.execute(statement.encode(), arrays)
        while page := cursor.fetchmany(page_rows):
            values = zip(*page, strict=True)
            cells = [pa.array(v, field.type) for v, field in zip(values, arrow, strict=True)]
            yield pa.RecordBatch.from_arrays(cells, schema=arrow)


def _arrow_type(kind: str) -> pa.DataType:
    import pyarrow as pa

    return {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "array<string>": pa.list_(pa.string()),
    }[kind]
