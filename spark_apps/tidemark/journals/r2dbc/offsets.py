"""The table of timestamp offsets of akka-projection-r2dbc, in the database of the journal.

A projection adds a row for each event, or for the last of each group, and deletes old rows: those
of the last time window before the newest row of a slice range are complete, and the newest row of
each slice stays. Source: akka-projection-r2dbc 1.4.0.
"""

from __future__ import annotations

from datetime import datetime

from psycopg import sql
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.journals.pekko.shapes import ID
from tidemark.journals.r2dbc import queries
from tidemark.journals.r2dbc.tables import journal_connection, require_columns
from tidemark.partitioning import columns
from tidemark.partitioning.keys import NUMBER_OF_SLICES, SliceRange
from tidemark.partitioning.slice_ranges import text
from tidemark.postgres import copy, jdbc
from tidemark.postgres.identifiers import TableName
from tidemark.postgres.session import session
from tidemark.postgres.statements import statement
from tidemark.settings import Settings
from tidemark.spark.shapes import Shape, ddl, shaped

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


@shaped(rows=STORED)
def replace(settings: Settings, projection: str, rows: DataFrame, consumed_at: datetime) -> int:
    """Replace all rows of a projection in one transaction, and return their number."""
    name = table(settings)
    values = {
        "projection_name": F.lit(projection),
        "projection_key": F.lit(_KEY),
        "slice": columns.slice_of(F.col("persistence_id")),
        "persistence_id": F.col("persistence_id"),
        "seq_nr": F.col("sequence_nr"),
        "timestamp_offset": F.timestamp_micros("micros"),
        "timestamp_consumed": F.lit(consumed_at),
    }
    number = 0
    with session(journal_connection(settings), autocommit=False) as opened:
        opened.execute(
            statement("DELETE FROM {table} WHERE projection_name = %s", table=name), (projection,)
        )
        copy_in = statement("COPY {table} ({columns}) FROM STDIN", table=name, columns=[*values])
        with opened.cursor() as cursor, cursor.copy(copy_in) as copied:
            for lines, number_of_rows in copy.blocks(
                rows.select(*(value.alias(column) for column, value in values.items()))
            ):
                copied.write(lines)
                number += number_of_rows
    return number
