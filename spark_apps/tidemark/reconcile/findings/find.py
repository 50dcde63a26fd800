"""Reads and compares all messages and tag views of a scope."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.validate.reading.examine import Examination, examine
from tidemark.validate.scope import Scope
from tidemark.validate.tag_views import finding_kinds
from tidemark.validate.tag_views.compare import count_exempt
from tidemark.validate.tag_views.expected import REMOVED


@dataclass(frozen=True)
class ComparisonResult:
    """The result of a comparison.

    Attributes:
        examination: the findings, and the keys that were compared.
        by_kind: the number of open findings of each kind, in the order of `finding_kinds.KINDS`,
            without zeros.
        read_at: the write time (microseconds) from before the first read.
        read: messages_checked, tag_rows_checked, removed_ids, rows_of_deleted_events,
            rows_of_lost_events; exempt_rows: rows that are missing and need not exist;
            settled_findings: findings that an operator has settled.
    """

    examination: Examination
    by_kind: dict[str, int]
    read_at: int
    read: dict[str, int]

    @property
    def left(self) -> int:
        """The number of findings that repair cannot repair."""
        return sum(self.by_kind.get(kind, 0) for kind in finding_kinds.OF_CONTINUITY)


def find(run: RunContext, scope: Scope) -> ComparisonResult:
    """Compare without writing."""
    read_at = run.control.write_time()
    examination = examine(run, scope)
    compared, journal = examination.compared, examination.read
    rows = examination.findings.groupBy("check_name").count().collect()
    count_by_kind = {row["check_name"]: row["count"] for row in rows}
    by_kind = {kind: count_by_kind[kind] for kind in finding_kinds.KINDS if kind in count_by_kind}
    read = {
        "messages_checked": journal.index.count(),
        "tag_rows_checked": journal.keys.rows.count(),
        "rows_of_deleted_events": compared.kept.of_deleted_events.count(),
        "rows_of_lost_events": compared.kept.of_lost_events.count(),
        "exempt_rows": count_exempt(compared.absent, examination.bounds),
        "removed_ids": compared.keys.deleted.where(F.col("deleted_to") == REMOVED).count(),
        "settled_findings": examination.found.count() - sum(by_kind.values()),
    }
    return ComparisonResult(examination, by_kind, read_at, read)
