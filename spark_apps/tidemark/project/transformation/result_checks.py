"""Evaluates the checks of a definition on the rows that are about to be written.

One aggregate evaluates all checks. Great Expectations, which validate uses for its findings, would
run six Spark jobs for each check.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.errors import WrongData
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.definition.model import Definition
from tidemark.user_sql.evaluate import (
    SHOWN_CHARACTERS,
    named_columns,
    require_evaluable,
    with_failures,
)
from tidemark.user_sql.row_check import RowCheck

_FAILS, _ROW = "_fails_{}", "_row"


@dataclass(frozen=True)
class Finding:
    """A check that fails.

    Attributes:
        failing: number of rows that fail; for `unique` all rows with equal values.
        rows: number of rows checked.
        example: a failing row's `column=value` of its key and of the check's columns.
    """

    check: RowCheck
    failing: int
    rows: int
    example: str

    def __str__(self) -> str:
        """Return the text for reports."""
        what = f"{self.check.text}: {self.failing:,} of {self.rows:,} rows"
        return f"{what}, such as {self.example}" if self.example else what


def analyze(spark: SparkSession, analyzed: AnalyzedDefinition) -> None:
    """Reject checks that Spark cannot evaluate, without reading data."""
    definition = analyzed.definition
    if not definition.checks:
        return
    empty = spark.createDataFrame([], analyzed.result)
    for check in definition.checks:
        require_evaluable(empty, check, definition.file)


def examine(rows: DataFrame, checks: Sequence[RowCheck], key: Sequence[str]) -> list[Finding]:
    """Find the checks that fail, in one job.

    `key` are the columns that identify a row for readers; columns that `rows` lacks are ignored.
    """
    if not checks:
        return []
    marks = [_FAILS.format(number) for number in range(len(checks))]
    marked_rows = with_failures(rows, dict(zip(marks, checks, strict=True)))
    example_columns = [named_columns(rows, check, key) for check in checks]
    aggregates = marked_rows.agg(
        F.count(F.lit(1)).alias("rows"),
        *[F.count_if(mark).alias(f"{mark}_n") for mark in marks],
        *[
            F.min(F.when(F.col(mark), F.struct(*names))).alias(f"{mark}{_ROW}")
            for mark, names in zip(marks, example_columns, strict=True)
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


def _shown(aggregates: T.Row, name: str) -> str:
    example = aggregates.asDict().get(name)
    if example is None:
        return ""
    return ", ".join(
        f"{key}={str(value)[:SHOWN_CHARACTERS]}" for key, value in example.asDict().items()
    )
