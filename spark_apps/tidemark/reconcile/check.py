"""check: finds differences between messages and tag views; the journal is not changed."""

from __future__ import annotations

from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import Remedy, WrongData
from tidemark.ledger import audit
from tidemark.reconcile.findings import store as findings
from tidemark.reconcile.findings.find import ComparisonResult, find
from tidemark.reconcile.journal import require_journal
from tidemark.reconcile.operation import APPLICATION, audited_subject
from tidemark.text import counted
from tidemark.validate.findings import finding
from tidemark.validate.scope import Scope, require_known
from tidemark.validate.stored_findings import FINDING
from tidemark.validate.tag_views import finding_kinds

_EXAMPLES = 10


def run_check(run: RunContext, scope: Scope) -> Outcome:
    """Compare, store the findings, and end as FAILED with a `WrongData` if there are any.

    No lock is taken, so actors and other applications may keep running.
    """
    require_journal(run)
    require_known(run, scope)
    comparison = find(run, scope)
    findings.replace(run, scope, comparison.examination.found)
    lines = describe(comparison)
    counts = {**comparison.read, "findings": sum(comparison.by_kind.values()), **comparison.by_kind}
    audit.record(run, "check", audited_subject(run, scope), lines, counts, dry_run=True)
    if not comparison.by_kind:
        return Outcome(RunState.DONE, PieceCounts(planned=1, done=1), counts, lines)
    return Outcome(
        RunState.FAILED,
        PieceCounts(planned=1, failed=1),
        counts,
        lines,
        _error(run, scope, comparison),
    )


def describe(comparison: ComparisonResult) -> list[str]:
    """Describe each kind of finding with its number, exempt rows, and the first findings."""
    exempt = comparison.read["exempt_rows"]
    lines = []
    if exempt:
        rows = "1 row is missing" if exempt == 1 else f"{exempt:,} rows are missing"
        lines.append(f"{rows} on purpose: purged or expired")
    settled = comparison.read["settled_findings"]
    if settled:
        lines.append(f"{counted(settled, 'finding')} settled by operators, in settled_finding")
    if not comparison.by_kind:
        return ["the tag views are what the messages say they should be", *lines]
    kinds_found = [
        f"{kind} {count:,}: does not hold: {finding_kinds.RULES[kind]}"
        for kind, count in comparison.by_kind.items()
    ]
    examples = finding.first_lines(comparison.examination.findings, _EXAMPLES)
    return [*kinds_found, *lines, *examples]


def _error(run: RunContext, scope: Scope, comparison: ComparisonResult) -> WrongData:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in comparison.by_kind.items())
    total = sum(comparison.by_kind.values())
    ways = []
    remedy = None
    if total > comparison.left:
        # The findings are in the table by now.
        options = {"from-findings": True} if scope.is_everything else scope.options()
        remedy = Remedy(APPLICATION, "repair", options)
        ways.append(f"run `{remedy} --apply`")
    if comparison.left:
        ways.append(
            "no repair brings back what messages have lost: restore it from a backup, or settle it"
            " (`reconcile.py settle`)"
        )
    return WrongData(
        f"{counted(total, 'finding')} ({kinds})",
        where=run.settings.journal_keyspace,
        do=f"see {run.settings.keyspace}.{FINDING}; {'; '.join(ways)}",
        remedy=remedy,
    )
