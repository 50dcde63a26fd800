"""Stores the findings of a check; they replace those of its scope in the table `finding`."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.spark.shapes import shaped
from tidemark.validate import store
from tidemark.validate.findings import checks
from tidemark.validate.reading.source import of_ids, of_tags
from tidemark.validate.scope import Scope
from tidemark.validate.shapes import WEIGHED
from tidemark.validate.tag_views import finding_kinds
from tidemark.window import to_millis


@shaped(findings=WEIGHED)
def replace(run: RunContext, scope: Scope, findings: DataFrame) -> None:
    """Write the findings of a scope, settled ones too, then delete older ones of the same scope.

    Findings outside the scope are kept, and so are those of checks that a comparison does not make.
    """
    key = store.BY_CHECK if scope.is_everything else store.BY_KEY
    store.replace(run, findings, checks.CHECKS, lambda stored: _of(run, stored, scope), key=key)


def _of(run: RunContext, stored: DataFrame, scope: Scope) -> DataFrame:
    """Return the stored findings that a comparison of the scope would find again."""
    of_scope = of_tags(
        of_ids(run, stored.where(F.col("check_name").isin(*finding_kinds.KINDS)), scope), scope
    )
    if scope.window is None:
        return of_scope
    first, end = to_millis(scope.window.start), to_millis(scope.window.end)
    return of_scope.where(
        F.col("time_bucket").between(first, end - 1)
        | F.col("row_time_bucket").between(first, end - 1)
    )
