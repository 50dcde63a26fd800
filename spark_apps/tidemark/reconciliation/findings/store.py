"""The findings of a check: they replace those of its scope in the table `finding`."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.continuity import store
from tidemark.continuity.findings import checks, finding
from tidemark.continuity.shapes import FINDINGS, WEIGHED
from tidemark.continuity.tag_views import kinds
from tidemark.reconciliation.findings.scope import Scope
from tidemark.spark.shapes import shaped
from tidemark.window import to_millis

EXAMPLES = 10


@shaped(findings=WEIGHED)
def replace(run: RunContext, scope: Scope, findings: DataFrame) -> None:
    """Write the findings of a scope, then delete older ones of the same scope.

    Findings outside it stay, and so do those of checks that a comparison does not make.

    Args:
        run: the context of the run.
        scope: what was compared.
        findings: all that was found, the settled ones too.
    """
    key = store.BY_CHECK if scope.is_everything else store.BY_KEY
    store.replace(run, findings, checks.CHECKS, _is_of(scope), key=key)


def _is_of(scope: Scope) -> Column:
    """Return whether a stored finding is one that a comparison of the scope would find again."""
    is_of = F.col("check_name").isin(*kinds.KINDS)
    if scope.persistence_ids is not None:
        is_of &= F.col("persistence_id").isin(*sorted(scope.persistence_ids))
    if scope.tags is not None:
        is_of &= F.col("tag").isin(*sorted(scope.tags))
    if scope.window is not None:
        first, end = to_millis(scope.window.start), to_millis(scope.window.end)
        is_of &= F.col("time_bucket").between(first, end - 1) | F.col("held_in").between(
            first, end - 1
        )
    return is_of


@shaped(findings=FINDINGS)
def examples(findings: DataFrame) -> list[str]:
    """Return the first findings as lines for reports, in the order of `kinds.KINDS`."""
    listed = F.array(*map(F.lit, kinds.KINDS))
    kind = F.call_function("array_position", listed, F.col("check_name"))
    first = findings.orderBy(kind, "persistence_id", "tag", "sequence_nr", "number")
    return [finding.line(row.asDict()) for row in first.limit(EXAMPLES).collect()]
