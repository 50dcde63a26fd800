"""All differences of a scope between messages and tag views, read and compared."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.continuity import store
from tidemark.continuity.findings.finding import weighed
from tidemark.continuity.reading import journal_keys
from tidemark.continuity.tag_views import kinds
from tidemark.continuity.tag_views.bounds import Bounds
from tidemark.continuity.tag_views.compare import compare, count_exempt
from tidemark.continuity.tag_views.expected import REMOVED
from tidemark.continuity.tag_views.keys import once
from tidemark.continuity.tag_views.sums import Doubts
from tidemark.reconciliation.findings.read import at_once, read_keys
from tidemark.reconciliation.findings.scope import Scope


@dataclass(frozen=True)
class Comparison:
    """What a comparison found.

    Attributes:
        found: of shape WEIGHED and EVIDENCE, in memory: all findings, the settled ones too.
        by_kind: how many open findings of each kind, in the order of `kinds.KINDS`, without zeros.
        left: how many of them repair leaves as they are.
        read: messages_checked, tag_rows_checked, removed_ids, rows_of_deleted_events,
            rows_of_lost_events; exempt_rows: rows that are missing and need not be there;
            settled_findings: what would be a finding, had nobody settled it.
    """

    found: DataFrame
    by_kind: dict[str, int]
    left: int
    read: dict[str, int]

    @property
    def findings(self) -> DataFrame:
        """The findings that nobody has settled."""
        return self.found.where(F.col("reason").isNull())


def find(run: RunContext, scope: Scope) -> Comparison:
    """Compare; nothing is written.

    Raises:
        InvalidInput: the directory of the tag rules does not exist.
        DefinitionError: a tag rule cannot be used.
    """
    bounds = Bounds.of(run, scope.window)
    run.say("reading the keys of tag views and messages")
    keys, read = read_keys(run, scope)
    run.say("comparing")
    bounds = bounds.with_removed(run)
    doubts = Doubts.of(keys, bounds.target_partition_size, once)
    compared = compare(keys, doubts, bounds, once, of_ids=scope.tags is None)
    settlements = store.settlements(run.spark, run.control, run.settings)
    findings = journal_keys.without_deletes_meanwhile(run, compared.findings)
    found, total = at_once(weighed(findings, settlements))
    counted = (
        found.where(F.col("reason").isNull())
        .groupBy("check_name")
        .agg(F.count("*").alias("findings"), F.count_if(F.expr(kinds.IS_LEFT)).alias("left"))
        .collect()
    )
    number = {row["check_name"]: row["findings"] for row in counted}
    by_kind = {kind: number[kind] for kind in kinds.KINDS if kind in number}
    read |= {
        "rows_of_deleted_events": compared.kept.of_deleted_events.count(),
        "rows_of_lost_events": compared.kept.of_lost_events.count(),
        "exempt_rows": count_exempt(compared.absent, compared.keys.deleted, bounds),
        "removed_ids": compared.keys.deleted.where(F.col("deleted_to") == REMOVED).count(),
        "settled_findings": total - sum(by_kind.values()),
    }
    return Comparison(found, by_kind, sum(row["left"] for row in counted), read)
