"""Bulk writes by COPY: the executors send the rows of a frame to a staging table.

Spark makes a line of COPY's text format of each row, and Arrow joins the lines of a batch, so that
Python never handles a single row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark import errors
from tidemark.errors import PostgresRefused, TidemarkError
from tidemark.postgres.connections import PostgresConnection
from tidemark.postgres.identifiers import TableName
from tidemark.postgres.session import Session, session
from tidemark.postgres.staged import ATTEMPT, Staged
from tidemark.postgres.statements import joined, statement, type_named
from tidemark.spark.python_workers import prepare_python_workers

MOST_TASKS = 16
"""Most tasks, and so sessions, that send rows at a time."""
NULL_CHARACTER = "\0"
"""The one character that no text of PostgreSQL can have."""
_LINE, _LINES, _ROWS = "line", "lines", "rows"
_SENT = f"{ATTEMPT} bigint, {_ROWS} bigint"
_ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_NULL = "\\N"
_OF_TASK = re.compile(r"^tidemark\.errors\.(\w+): (.*)$", re.MULTILINE)
"""The last line of a trace of Python in a task."""
_TYPES: Mapping[str, str] = {
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "string": "text",
    "boolean": "boolean",
    "float": "real",
    "double": "double precision",
    "timestamp": "timestamptz",
    "date": "date",
    "binary": "bytea",
}
"""The types of staged columns by Spark's names of types."""


def staged_type(kind: T.DataType) -> str:
    """Return the type of a staged column, which can hold every value of a Spark type.

    A text may not have the character U+0000. Arrays of simple types are arrays, all other values
    with parts are jsonb.
    """
    if isinstance(kind, T.DecimalType):
        return "numeric"
    if isinstance(kind, T.ArrayType) and is_simple(kind.elementType):
        return f"{staged_type(kind.elementType)}[]"
    return _TYPES.get(kind.simpleString(), "jsonb")


def is_simple(kind: T.DataType) -> bool:
    """Return whether a type has no parts."""
    return isinstance(kind, T.DecimalType) or kind.simpleString() in _TYPES


def create_staging(opened: Session, table: TableName, schema: T.StructType) -> None:
    """Make an unlogged table for rows of a schema: a crash of the server empties it."""
    columns = [
        statement("{name} {type}", name=field.name, type=type_named(staged_type(field.dataType)))
        for field in schema
    ]
    opened.execute(
        statement(
            "CREATE UNLOGGED TABLE {table} ({columns}, {attempt} bigint)",
            table=table,
            columns=joined(", ", columns),
            attempt=ATTEMPT,
        )
    )


def send(frame: DataFrame, connection: PostgresConnection, table: TableName) -> Staged:
    """Send the rows of a frame to its staging table, and return which of them count.

    Each task commits its rows at once. Spark may run a task again after its commit, so each row has
    the attempt of its task, and only the attempts that Spark reports count.

    Raises:
        PostgresUnavailable, PostgresRefused: from a task; Spark has tried it several times.
    """
    prepare_python_workers(frame.sparkSession, with_postgres=True)
    lines = frame.select(line(frame.schema).alias(_LINE)).coalesce(MOST_TASKS)
    try:
        results = lines.mapInArrow(_sender(connection, table, frame.columns), _SENT).collect()
    except Exception as error:
        raise _foreseen(error) from error
    return Staged(
        table,
        sorted(row[ATTEMPT] for row in results),
        sum(row[_ROWS] for row in results),
        tuple(frame.columns),
    )


def blocks(frame: DataFrame) -> Iterator[tuple[str, int]]:
    """Yield the rows of a frame as texts of COPY's format, each with its number of rows.

    For rows that one session must send, as in a transaction: one block at a time is in memory.
    """
    prepare_python_workers(frame.sparkSession, with_postgres=True)
    lines = frame.select(line(frame.schema).alias(_LINE))
    for block in lines.mapInArrow(_blocks, f"{_LINES} string, {_ROWS} bigint").toLocalIterator():
        yield block[_LINES], block[_ROWS]


def line(schema: T.StructType) -> Column:
    """Return each row as a line of COPY's text format, without the attempt and the line's end."""
    texts = [
        F.coalesce(_escaped(F.col(f"`{field.name}`"), field), F.lit(_NULL)) for field in schema
    ]
    return F.concat_ws("\t", *texts)


def _escaped(value: Column, field: T.StructField) -> Column:
    text = _text(value, field.dataType)
    has_escapes = isinstance(field.dataType, (T.StringType, T.BinaryType))
    if has_escapes or not is_simple(field.dataType):
        return _replaced(text, _ESCAPES)
    return text


def _text(value: Column, kind: T.DataType) -> Column:
    """Return a value as PostgreSQL's text of its staged type."""
    if isinstance(kind, T.BinaryType):
        return F.concat(F.lit("\\x"), F.hex(value))
    if isinstance(kind, (T.TimestampType, T.DateType)):
        return _time(value)
    if isinstance(kind, T.ArrayType) and is_simple(kind.elementType):
        element_kind = kind.elementType
        elements = F.transform(value, lambda element: _element(element, element_kind))
        return F.concat(F.lit("{"), F.array_join(elements, ","), F.lit("}"))
    if not is_simple(kind):
        return F.to_json(value)
    return value.cast("string")


def _element(value: Column, kind: T.DataType) -> Column:
    text = _replaced(_text(value, kind), (("\\", "\\\\"), ('"', '\\"')))
    return F.coalesce(F.concat(F.lit('"'), text, F.lit('"')), F.lit("NULL"))


def _time(value: Column) -> Column:
    """Return a time or date; PostgreSQL knows neither plus nor minus before a year."""
    text, year = value.cast("string"), F.year(value)
    before_christ = F.concat(
        F.lpad((1 - year).cast("string"), 4, "0"),
        F.regexp_extract(text, "^-?[0-9]+(-.*)$", 1),
        F.lit(" BC"),
    )
    return (
        F.when(year < 1, before_christ).when(year > 9999, F.substring(text, 2, 99)).otherwise(text)
    )


def _replaced(text: Column, pairs: Iterable[tuple[str, str]]) -> Column:
    for old, new in pairs:
        text = F.replace(text, F.lit(old), F.lit(new))
    return text


def _sender(
    connection: PostgresConnection, table: TableName, columns: list[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def send_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        attempt, rows = 0 if task is None else task.taskAttemptId(), 0
        copy_in = statement(
            "COPY {table} ({columns}) FROM STDIN", table=table, columns=[*columns, ATTEMPT]
        )
        line_end = pa.scalar(f"\t{attempt}\n", pa.large_string())
        with (
            session(connection, autocommit=False) as opened,
            opened.cursor() as cursor,
            cursor.copy(copy_in) as copy,
        ):
            for batch in batches:
                copy.write(_joined(batch.column(0), line_end))
                rows += batch.num_rows
        yield pa.RecordBatch.from_pydict({ATTEMPT: [attempt], _ROWS: [rows]})

    return send_batches


def _blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    line_end = pa.scalar("\n", pa.large_string())
    for batch in batches:
        lines = str(_joined(batch.column(0), line_end), "utf-8")
        yield pa.RecordBatch.from_pydict({_LINES: [lines], _ROWS: [batch.num_rows]})


def _joined(lines: pa.Array, line_end: pa.Scalar) -> memoryview:
    """Return all lines in one buffer: that of an array of texts has them one after the other."""
    kind = pa.large_string()
    ended = pc.binary_join_element_wise(lines.cast(kind), line_end, pa.scalar("", kind))
    offsets = memoryview(ended.buffers()[1]).cast("q")
    first, end = offsets[ended.offset], offsets[ended.offset + len(ended)]
    return memoryview(ended.buffers()[2])[first:end]


def _foreseen(error: Exception) -> Exception:
    """Return the foreseen error of a task that has failed, or the error itself."""
    found = _OF_TASK.findall(str(error))
    if not found:
        return error
    name, what = found[-1]
    kind: type[TidemarkError] = getattr(errors, name, PostgresRefused)
    return kind(what)
