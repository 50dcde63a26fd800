"""The table of timestamp offsets of akka-projection-r2dbc, in the database of the journal.

A projection adds a row for each event, or for the last of each group, and deletes old rows: those
of the last time window before the newest row of a slice range are complete, and the newest row of
each slice stays. Source: akka-projection-r2dbc 1.4.0.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple

import psycopg
from psycopg import sql
from pyspark.sql import DataFrame, SparkSession

from tidemark.journals.pekko.shapes import ID
from tidemark.journals.r2dbc import queries
from tidemark.journals.r2dbc.tables import journal_connection, require_columns
from tidemark.partitioning.keys import NUMBER_OF_SLICES, SliceRange
from tidemark.partitioning.slice_ranges import text
from tidemark.postgres import jdbc
from tidemark.postgres.identifiers import TableName
from tidemark.postgres.session import session
from tidemark.settings import Settings
from tidemark.spark.shapes import Shape, ddl, shaped
from tidemark.window import EPOCH

STORED: Shape = {**ID, "sequence_nr": "bigint", "micros": "bigint"}
"""The highest consumed sequence nr of a persistence id, and its event's time in epoch µs."""
_COLUMNS = {
    "projection_name": "character varying",
    "projection_key": "character varying",
    "slice": "integer",
    "persistence_id": "character varying",
    "seq_nr": "bigint",
    "timestamp_offset": "timestamp with time zone",
    "timestamp_consumed": "timestamp with time zone",
}
_SETTING = "TIDEMARK_R2DBC_OFFSET_TABLE"
_PARTS = 16
_KEY = text(SliceRange(0, NUMBER_OF_SLICES - 1))
"""The key of all rows: a projection with any other ranges finds rows by their slices."""


class OffsetRow(NamedTuple):
    """A row to write; `micros` is the time of the event in epoch µs."""

    slice: int
    persistence_id: str
    sequence_nr: int
    micros: int


def table(settings: Settings) -> TableName:
    """Return the name of the table."""
    return TableName(settings.r2dbc_schema, settings.r2dbc_offset_table)


def require(settings: Settings) -> None:
    """Require a table with the columns of akka-projection-r2dbc.

    Raises:
        InvalidInput: the user may not read it.
        SchemaMismatch: it is absent or has another shape.
    """
    server = journal_connection(settings)
    with session(server) as opened:
        require_columns(opened, server, table(settings), _COLUMNS, _SETTING)


def newest(settings: Settings, projection: str) -> dict[int, int]:
    """Read by slice the newest time (epoch µs) of the slice range that wrote its rows.

    A slice range consumes its events in the order of their times. At most 1,024 slices have rows.
    """
    query = (
        "WITH ranges AS (SELECT projection_key, max(timestamp_offset) AS newest"
        f" FROM {table(settings).quoted} WHERE projection_name = %(name)s GROUP BY projection_key)"
        " SELECT slice, (extract(epoch FROM max(newest)) * 1000000)::bigint"
        f" FROM {table(settings).quoted} JOIN ranges USING (projection_key)"
        " WHERE projection_name = %(name)s GROUP BY slice"
    )
    with session(journal_connection(settings)) as opened:
        return dict(opened.execute(query.encode(), {"name": projection}).fetchall())


@shaped(returns=STORED)
def stored(spark: SparkSession, settings: Settings, projection: str) -> DataFrame:
    """Read the highest consumed sequence nr of each persistence id that has a row."""
    name = sql.Literal(projection).as_string(None)
    width = NUMBER_OF_SLICES // _PARTS
    selects = [
        "SELECT DISTINCT ON (persistence_id) persistence_id, seq_nr AS sequence_nr,"
        " (extract(epoch FROM timestamp_offset) * 1000000)::bigint AS micros"
        f" FROM {table(settings).quoted} WHERE projection_name = {name}"
        f" AND slice BETWEEN {first} AND {first + width - 1}"
        " ORDER BY persistence_id, seq_nr DESC"
        for first in range(0, NUMBER_OF_SLICES, width)
    ]
    server = journal_connection(settings)
    return jdbc.read(spark, server, selects, ddl(STORED), options=queries.BY_INDEX)


def replace(settings: Settings, projection: str, rows: Iterable[OffsetRow]) -> int:
    """Replace all rows of a projection in one transaction, and return their number."""
    name = table(settings)
    columns = sql.SQL(", ").join(map(sql.Identifier, _COLUMNS))
    with session(journal_connection(settings), autocommit=False) as opened:
        opened.execute(
            sql.SQL("DELETE FROM {} WHERE projection_name = %s").format(name.sql), (projection,)
        )
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(name.sql, columns)
        return _copied(opened, statement, projection, rows)


def _copied(
    opened: psycopg.Connection,
    statement: sql.Composed,
    projection: str,
    rows: Iterable[OffsetRow],
) -> int:
    number = 0
    [now] = opened.execute("SELECT now()").fetchone() or [None]
    with opened.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            moment = EPOCH + timedelta(microseconds=row.micros)
            copy.write_row(
                (projection, _KEY, row.slice, row.persistence_id, row.sequence_nr, moment, now)
            )
            number += 1
    return number
