"""States of mode fold in PostgreSQL, and the rows of `tidemark_projection_state`."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.partitioning.slice_ranges import ALL
from tidemark.postgres import jdbc
from tidemark.postgres.copy import staged_type
from tidemark.postgres.identifiers import quoted
from tidemark.postgres.session import session
from tidemark.postgres.staged import ATTEMPT
from tidemark.postgres.statements import statement
from tidemark.project.postgres.fence import Fence, revoke
from tidemark.project.postgres.place import STATES, PostgresPlace
from tidemark.project.postgres.staging import staged
from tidemark.project.postgres.types import jdbc_type

STATE_NR, VERSION, GENERATION, IS_DELETED = (
    "tidemark_state_nr",
    "tidemark_version",
    "tidemark_generation",
    "tidemark_is_deleted",
)
"""What is recorded of a state: null if nothing is, as of a row that was inserted by hand."""
ROW_NR = "tidemark_row_nr"
"""The sequence nr in the row; null if there is no row."""
_RECORDED = (
    f"{STATE_NR} bigint, {VERSION} int, {GENERATION} bigint, {IS_DELETED} boolean, {ROW_NR} bigint"
)


def stored(fence: Fence, ids: DataFrame, result: T.StructType) -> DataFrame:
    """Read the states of the persistence ids in `ids`; the frame is in memory.

    Columns out: those of `result`, which are null without a row, and STATE_NR to ROW_NR.
    """
    place = fence.place
    columns = ", ".join(_selected(field) for field in result if field.name != "persistence_id")
    kinds = ", ".join(f"`{field.name}` {jdbc_type(field.dataType)}" for field in result)
    with staged(fence, ids.select("persistence_id")) as keys:
        if not keys.rows:
            return ids.sparkSession.createDataFrame([], f"{kinds}, {_RECORDED}")
        queries = [
            f"SELECT i.persistence_id, {columns}, s.sequence_nr AS {STATE_NR},"
            f" s.definition_version AS {VERSION}, s.generation AS {GENERATION},"
            f" s.is_deleted AS {IS_DELETED}, t.sequence_nr AS {ROW_NR}"
            f" FROM {keys.table.quoted} i"
            f" LEFT JOIN {place.target.quoted} t ON t.persistence_id = i.persistence_id"
            f" LEFT JOIN {place.own(STATES).quoted} s"
            f" ON s.projection_id = {fence.projection_id:d}"
            " AND s.persistence_id = i.persistence_id"
            f" WHERE i.{ATTEMPT} = {attempt:d}"
            " AND (t.persistence_id IS NOT NULL OR s.persistence_id IS NOT NULL)"
            for attempt in keys.attempts
        ]
        rows = jdbc.read(ids.sparkSession, place.connection, queries, f"{kinds}, {_RECORDED}")
        values = [_value(field).alias(field.name) for field in result]
        recorded = (STATE_NR, VERSION, GENERATION, IS_DELETED, ROW_NR)
        return rows.select(*values, *recorded).localCheckpoint()


def void(place: PostgresPlace, persistence_ids: Sequence[str], generation: int) -> None:
    """Let the next run compute the states of some persistence ids again.

    A run that has lost its lock cannot commit afterwards.
    """
    with session(place.connection, autocommit=False) as opened:
        number = place.number(opened)
        if number is None:
            return
        revoke(opened, place, number, ALL)
        opened.execute(
            statement(
                "UPDATE {states} SET definition_version = 0, generation = %s"
                " WHERE projection_id = %s AND persistence_id = ANY(%s)",
                states=place.own(STATES),
            ),
            (generation, number, [*persistence_ids]),
        )


def _selected(field: T.StructField) -> str:
    name = quoted(field.name)
    text = "::text" if staged_type(field.dataType) in {"jsonb", "text"} else ""
    return f"t.{name}{text} AS {name}"


def _value(field: T.StructField) -> Column:
    value = F.col(f"`{field.name}`")
    if staged_type(field.dataType) == "jsonb":
        return F.from_json(value, field.dataType.simpleString())
    return value.cast(field.dataType)
