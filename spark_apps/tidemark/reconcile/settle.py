"""reconcile settle: accepts findings of validate or check, so that they no longer block.

Data that messages has lost is in no other table, and no reader can read an unreadable event, so
validate would block the schedule for ever. It continues once an operator has accepted the finding
and stated the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemark.application.guarded_change import EnsureLocked, Plan
from tidemark.cassandra.control import Row
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.reconcile.operation import ReconcileOperation
from tidemark.text import counted
from tidemark.validate import store
from tidemark.validate.findings import finding
from tidemark.validate.findings.check import Severity
from tidemark.validate.findings.checks import CHECKS
from tidemark.validate.layers import all_layers
from tidemark.validate.stored_findings import FINDING
from tidemark.validate.user_checks import definition

MOST = 10_000
"""Findings that one command may settle; each of them is an operator's decision."""
SHOWN = 20


@dataclass(frozen=True)
class FindingFilter:
    """A filter of findings; a finding must match all given values.

    Attributes:
        persistence_ids: any of them; all if empty.
        tags: any of them; all if empty.
        check: name of a check; all if None.
        number: the finding's number; all if None.
    """

    persistence_ids: frozenset[str] = field(default_factory=frozenset)
    tags: frozenset[str] = field(default_factory=frozenset)
    check: str | None = None
    number: int | None = None

    def matches(self, row: Row) -> bool:
        """Return whether a finding matches."""
        return (
            (not self.persistence_ids or row["persistence_id"] in self.persistence_ids)
            and (not self.tags or row["tag"] in self.tags)
            and self.check in (None, row["check_name"])
            and self.number in (None, row["number"])
        )

    def __str__(self) -> str:
        parts = [*sorted(self.persistence_ids), *sorted(self.tags), self.check, self.number]
        return " ".join(str(part) for part in parts if part is not None)


def operation(choice: FindingFilter, reason: str) -> ReconcileOperation:
    """Settle the open findings that match.

    Raises:
        InvalidInput: the reason is empty, or the filter is. When planning: there is no such check,
            there are no such findings, or more than MOST.
    """
    if not reason.strip():
        raise InvalidInput("no reason", where="--reason", do="say why nothing is to be done")
    if choice == FindingFilter():
        raise InvalidInput(
            "nothing says which findings",
            where="settle",
            do="give --persistence-id, --tag, --check or --number",
        )
    return ReconcileOperation(
        "settle",
        str(choice),
        lambda run: _plan(run, choice, reason.strip()),
        corrects_journal=False,
    )


def _plan(run: RunContext, choice: FindingFilter, reason: str) -> Plan:
    findings: list[Row] = []
    for row in filter(choice.matches, store.open_findings(run.control, run.settings)):
        findings.append(row)
        if len(findings) > MOST:
            raise InvalidInput(
                f"more than {MOST:,} findings", where=str(choice), do="settle fewer at once"
            )
    if not findings:
        _require_known(run, choice.check)
        if any(map(choice.matches, store.settled(run.control, run.settings))):
            return Plan({"findings_settled": 0}, ["settled already"], None)
        raise InvalidInput(
            "there is no such open finding",
            where=str(choice),
            do=f"see the table {run.settings.keyspace}.{FINDING}; what was damaged since the"
            " last run of validate or of check is not there",
        )
    counts = {"findings_settled": len(findings)}
    subjects = {check.name: check.subject for check in all_layers.CHECKS}
    lines = [
        f"settles {counted(len(findings), 'finding')}: {reason}",
        *(finding.line(row, subjects.get(row["check_name"], "tag")) for row in findings[:SHOWN]),
    ]
    if len(findings) > SHOWN:
        lines.append(f"and {len(findings) - SHOWN:,} more")

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        ensure_locked()
        store.settle(run.control, run.settings, findings, reason, run.owner)
        return counts

    return Plan(counts, [*lines, "validate passes them when it runs again"], apply)


def _require_known(run: RunContext, name: str | None) -> None:
    layer_checks = all_layers.CHECKS
    user_checks = definition.load(run.settings.checks_dir, layer_checks)
    checks = [*CHECKS, *layer_checks, *(user_check.check for user_check in user_checks)]
    blocking = [check.name for check in checks if check.severity is Severity.BLOCKS]
    if name not in (None, *blocking):
        raise InvalidInput(
            f"no check {name!r}", where="--check", do=f"choose one of {', '.join(blocking)}"
        )
