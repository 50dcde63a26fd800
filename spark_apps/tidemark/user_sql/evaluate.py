"""A user's SELECT as Spark's rows, and checks of them as Spark's columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidemark.spark import gateway
from tidemark.user_sql.refusal import refused, unresolved
from tidemark.user_sql.row_check import RowCheck
from tidemark.user_sql.statement import Select

SHOWN_CHARACTERS = 40
"""Of a value in an example."""


def selected(spark: SparkSession, select: Select) -> DataFrame:
    """Return the rows of a SELECT over the session's tables."""
    # In parentheses nothing but a query is possible. The SELECT keeps its lines: it starts with as
    # many line ends as its file has above it.
    return spark.sql(f"SELECT * FROM ({select.sql}\n)")


def accepted(
    spark: SparkSession, select: Select, file: Path, columns: str, tables: str
) -> DataFrame:
    """Return `selected` if Spark accepts the SELECT; nothing is read.

    Args:
        spark: the session.
        select: of the file.
        file: the user's.
        columns: the columns there are, for the error.
        tables: the tables there are, for the error.

    Raises:
        DefinitionError: naming file, line, column and what would be right.
    """
    try:
        # By itself first: in parentheses a syntax error would be described by them.
        gateway.session_of(spark).sessionState().sqlParser().parsePlan(select.sql)
        return selected(spark, select)
    except ParseException as error:
        raise refused(file, "the SQL", error, "correct it", select.line) from None
    except AnalysisException as error:
        raise unresolved(file, "the SQL", columns, tables, error, select.line) from None


def require_evaluable(rows: DataFrame, check: RowCheck, file: Path, tables: str) -> None:
    """Refuse a check that Spark cannot evaluate; no row is read.

    Args:
        rows: what is checked, with or without rows.
        check: of the file.
        file: the user's.
        tables: the tables there are, for the error.

    Raises:
        DefinitionError: naming file, line, column and what would be right.
    """
    columns = f"the columns of the result are {', '.join(rows.columns)}"
    what, place = f"the check {check.text}", (check.line, check.column)
    try:
        if not check.is_unique:
            # An aggregate or a window would look at other rows, which only `unique` does.
            rows.where(F.expr(check.sql))
        rows.select(fails(check))
    except ParseException as error:
        raise refused(file, what, error, "correct it", *place) from None
    except AnalysisException as error:
        raise unresolved(file, what, columns, tables, error, *place) from None


def fails(check: RowCheck) -> Column:
    """Return whether a row fails a check; of `unique` all rows that are not alone do."""
    if check.is_unique:
        alike = Window.partitionBy(F.expr(check.sql))
        return F.count(F.lit(1)).over(alike) > 1
    return ~F.coalesce(F.expr(check.sql), F.lit(True))


def named_columns(rows: DataFrame, check: RowCheck, key: Sequence[str]) -> list[str]:
    """Return the columns of an example: the key's and the check's; Spark orders no maps."""
    plan = gateway.analyzed_plan(rows.select(F.expr(check.sql)))
    used = [str(attribute.name()) for attribute in gateway.each(plan.references().toSeq())]
    ordered = {
        field.name
        for field in rows.schema.fields
        if not any(kind in field.dataType.simpleString() for kind in ("map<", "interval", "void"))
    }
    return [name for name in dict.fromkeys([*key, *sorted(used)]) if name in ordered]
