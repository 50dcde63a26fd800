"""The checks of a definition, evaluated over the rows that are about to be written.

One aggregate for all of them. Great Expectations, which judges what validate found, would run six
Spark jobs for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.errors import WrongData
from tidemark.projection.analysis.analyze import AnalyzedDefinition, refused, unresolved
from tidemark.projection.definition.checks import ResultCheck
from tidemark.projection.definition.model import Definition
from tidemark.spark import gateway

_FAILS, _ROW = "_fails_{}", "_row"
_WIDTH = 40


@dataclass(frozen=True)
class Finding:
    """A check that fails.

    Attributes:
        check: which one.
        failing: the rows for which it is false; of `unique` all rows that are not alone.
        rows: how many were looked at.
        example: of one such row, `column=value` of its key and of what the check names.
    """

    check: ResultCheck
    failing: int
    rows: int
    example: str

    def __str__(self) -> str:
        """Return the text for reports."""
        what = f"{self.check.text}: {self.failing:,} of {self.rows:,} rows"
        return f"{what}, such as {self.example}" if self.example else what


def analyze(spark: SparkSession, checked: AnalyzedDefinition) -> None:
    """Refuse checks that Spark cannot evaluate; nothing is read.

    Raises:
        DefinitionError: naming file, line, column and what would be right.
    """
    definition = checked.definition
    if not definition.checks:
        return
    empty = spark.createDataFrame([], checked.result)
    columns = f"the columns of the result are {', '.join(checked.result.names)}"
    for check in definition.checks:
        what, place = f"the check {check.text}", (check.line, check.column)
        try:
            if not check.is_unique:
                # An aggregate or a window would look at other rows, which only `unique` does.
                empty.where(F.expr(check.sql))
            empty.select(_fails(check))
        except ParseException as error:
            raise refused(definition, what, error, "correct it", *place) from None
        except AnalysisException as error:
            raise unresolved(definition, what, columns, error, *place) from None


def examine(rows: DataFrame, checks: Sequence[ResultCheck], key: Sequence[str]) -> list[Finding]:
    """Find the checks that fail, in one job.

    Args:
        rows: the result.
        checks: the checks that `analyze` has accepted.
        key: the columns that identify a row for a reader; columns that `rows` lacks are left out.
    """
    if not checks:
        return []
    marks = [_FAILS.format(number) for number in range(len(checks))]
    marked = rows.select(
        "*", *[_fails(check).alias(mark) for check, mark in zip(checks, marks, strict=True)]
    )
    named = [_named(rows, check, key) for check in checks]
    aggregates = marked.agg(
        F.count(F.lit(1)).alias("rows"),
        *[F.count_if(mark).alias(f"{mark}_n") for mark in marks],
        *[
            F.min(F.when(F.col(mark), F.struct(*names))).alias(f"{mark}{_ROW}")
            for mark, names in zip(marks, named, strict=True)
            if names
        ],
    ).collect()[0]
    return [
        Finding(
            check, aggregates[f"{mark}_n"], aggregates["rows"], _shown(aggregates, f"{mark}{_ROW}")
        )
        for check, mark in zip(checks, marks, strict=True)
        if aggregates[f"{mark}_n"]
    ]


def require(definition: Definition, findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that only warn.

    Raises:
        WrongData: a blocking check fails.
    """
    blocking = [finding for finding in findings if finding.check.is_blocking]
    if blocking:
        first = blocking[0].check
        raise WrongData(
            f"the result fails {len(blocking)} {'check' if len(blocking) == 1 else 'checks'}: "
            + "; ".join(map(str, blocking)),
            where=f"{definition.file}:{first.line}:{first.column}",
            do="nothing of it was written; correct the SELECT or the events, or write `warn:`"
            " before the check",
        )
    return [finding for finding in findings if not finding.check.is_blocking]


def _fails(check: ResultCheck) -> Column:
    if check.is_unique:
        alike = Window.partitionBy(F.expr(check.sql))
        return F.count(F.lit(1)).over(alike) > 1
    return ~F.coalesce(F.expr(check.sql), F.lit(True))


def _named(rows: DataFrame, check: ResultCheck, key: Sequence[str]) -> list[str]:
    """Return the columns of an example: the key's and the check's; Spark orders no maps."""
    plan = gateway.analyzed_plan(rows.select(F.expr(check.sql)))
    used = [str(attribute.name()) for attribute in gateway.each(plan.references().toSeq())]
    ordered = {
        field.name
        for field in rows.schema.fields
        if not any(kind in field.dataType.simpleString() for kind in ("map<", "interval", "void"))
    }
    return [name for name in dict.fromkeys([*key, *sorted(used)]) if name in ordered]


def _shown(aggregates: T.Row, name: str) -> str:
    example = aggregates.asDict().get(name)
    if example is None:
        return ""
    return ", ".join(f"{key}={str(value)[:_WIDTH]}" for key, value in example.asDict().items())
