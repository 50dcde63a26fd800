"""Evaluates a user's SELECT as a frame, and checks of its rows as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidemark.spark import gateway
from tidemark.user_sql import allowed
from tidemark.user_sql.ansi import ansi, attempted
from tidemark.user_sql.refusal import refused, unresolved
from tidemark.user_sql.row_check import RowCheck
from tidemark.user_sql.statement import Select

SHOWN_CHARACTERS = 40
"""Most characters of a value in an example."""


def accepted(
    spark: SparkSession, select: Select, file: Path, columns: str, tables: Sequence[str]
) -> DataFrame:
    """Return the rows of a SELECT over the views `tables`, without reading them.

    `columns` names the columns that exist, for the error message.

    Raises:
        DefinitionError: the SELECT is not allowed, or cannot be parsed or analyzed.
    """
    try:
        return allowed.query(spark, select.sql, tables)
    except ParseException as error:
        raise refused(file, "the SQL", error, "correct it", select.line) from None
    except AnalysisException as error:
        raise unresolved(file, "the SQL", columns, error, select.line) from None


def require_evaluable(rows: DataFrame, check: RowCheck, file: Path) -> None:
    """Reject a check that Spark cannot evaluate; reads no rows, so that `rows` may be empty.

    Raises:
        DefinitionError: the check is not allowed, or cannot be parsed or analyzed.
    """
    columns = f"the columns of the result are {', '.join(rows.columns)}"
    what, place = f"the check {check.text}", (check.line, check.column)
    try:
        with allowed.flat(), ansi(rows.sparkSession):
            if not check.is_unique:
                # A WHERE rejects aggregates and windows: only `unique` may read other rows.
                rows.where(_expression(rows, check))
            rows.select(_fails(rows, check))
    except ParseException as error:
        raise refused(file, what, error, "correct it", *place) from None
    except AnalysisException as error:
        raise unresolved(file, what, columns, error, *place) from None


def with_failures(rows: DataFrame, checks: Mapping[str, RowCheck]) -> DataFrame:
    """Add a boolean column for each check, under its name: whether the row fails the check.

    All rows with equal values fail `unique`. A row also fails if its check cannot be evaluated,
    for example because of a division by zero.
    """
    with ansi(rows.sparkSession):
        return rows.select(
            "*", *(_fails(rows, check).alias(name) for name, check in checks.items())
        )


def _fails(rows: DataFrame, check: RowCheck) -> Column:
    if check.is_unique:
        equal_rows = Window.partitionBy(_expression(rows, check))
        return F.count(F.lit(1)).over(equal_rows) > 1
    evaluated = attempted(rows.sparkSession, _expression(rows, check))
    return evaluated.isNull() | ~F.coalesce(evaluated["value"], F.lit(True))


def named_columns(rows: DataFrame, check: RowCheck, key: Sequence[str]) -> list[str]:
    """Return the columns of an example: those of the key and the check that Spark can order."""
    with ansi(rows.sparkSession):
        plan = gateway.analyzed_plan(rows.select(_expression(rows, check)))
    used = [str(attribute.name()) for attribute in gateway.each(plan.references().toSeq())]
    orderable = {
        field.name
        for field in rows.schema.fields
        if not any(kind in field.dataType.simpleString() for kind in ("map<", "interval", "void"))
    }
    return [name for name in dict.fromkeys([*key, *sorted(used)]) if name in orderable]


def _expression(rows: DataFrame, check: RowCheck) -> Column:
    return allowed.expression(rows.sparkSession, check.sql)
