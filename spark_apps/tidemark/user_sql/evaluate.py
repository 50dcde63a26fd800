"""A user's SELECT as Spark's rows, and checks of them as Spark's columns."""

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
"""Of a value in an example."""


def accepted(
    spark: SparkSession, select: Select, file: Path, columns: str, tables: Sequence[str]
) -> DataFrame:
    """Return the rows of a SELECT over the session's views if it is allowed; nothing is read.

    Args:
        spark: the session.
        select: of the file.
        file: the user's.
        columns: the columns there are, for the error.
        tables: the views that it may read.

    Raises:
        DefinitionError: naming file, line, column and what would be right.
    """
    try:
        return allowed.query(spark, select.sql, tables)
    except ParseException as error:
        raise refused(file, "the SQL", error, "correct it", select.line) from None
    except AnalysisException as error:
        raise unresolved(file, "the SQL", columns, error, select.line) from None


def require_evaluable(rows: DataFrame, check: RowCheck, file: Path) -> None:
    """Refuse a check that Spark cannot evaluate; no row is read.

    Args:
        rows: what is checked, with or without rows.
        check: of the file.
        file: the user's.

    Raises:
        DefinitionError: naming file, line, column and what would be right.
    """
    columns = f"the columns of the result are {', '.join(rows.columns)}"
    what, place = f"the check {check.text}", (check.line, check.column)
    try:
        with allowed.flat(), ansi(rows.sparkSession):
            if not check.is_unique:
                # An aggregate or a window would look at other rows, which only `unique` does.
                rows.where(_expression(rows, check))
            rows.select(_fails(rows, check))
    except ParseException as error:
        raise refused(file, what, error, "correct it", *place) from None
    except AnalysisException as error:
        raise unresolved(file, what, columns, error, *place) from None


def with_failures(rows: DataFrame, checks: Mapping[str, RowCheck]) -> DataFrame:
    """Add a column for each check, by its name: whether the row fails it.

    Of `unique` all rows that are not alone do; of another check also rows for which it cannot be
    evaluated, as for a division by zero.
    """
    with ansi(rows.sparkSession):
        return rows.select(
            "*", *(_fails(rows, check).alias(name) for name, check in checks.items())
        )


def _fails(rows: DataFrame, check: RowCheck) -> Column:
    if check.is_unique:
        alike = Window.partitionBy(_expression(rows, check))
        return F.count(F.lit(1)).over(alike) > 1
    tried = attempted(rows.sparkSession, _expression(rows, check))
    return tried.isNull() | ~F.coalesce(tried["value"], F.lit(True))


def named_columns(rows: DataFrame, check: RowCheck, key: Sequence[str]) -> list[str]:
    """Return the columns of an example: the key's and the check's; Spark orders no maps."""
    with ansi(rows.sparkSession):
        plan = gateway.analyzed_plan(rows.select(_expression(rows, check)))
    used = [str(attribute.name()) for attribute in gateway.each(plan.references().toSeq())]
    ordered = {
        field.name
        for field in rows.schema.fields
        if not any(kind in field.dataType.simpleString() for kind in ("map<", "interval", "void"))
    }
    return [name for name in dict.fromkeys([*key, *sorted(used)]) if name in ordered]


def _expression(rows: DataFrame, check: RowCheck) -> Column:
    return allowed.expression(rows.sparkSession, check.sql)
