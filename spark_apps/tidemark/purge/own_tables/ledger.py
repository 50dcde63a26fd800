"""The rows of the ledger that its frontier makes redundant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from tidemark.application.approval import digest
from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.ledger.frontier import retention
from tidemark.ledger.frontier.retention import OldRows
from tidemark.ledger.schedule import time_buckets
from tidemark.purge.target import TargetPlan, Tombstones
from tidemark.text import counted
from tidemark.window import to_millis


def plan_ledger(run: RunContext, keep_days: int) -> TargetPlan:
    """Plan to delete the rows of done pieces, each of a span that ended `keep_days` ago or earlier.

    The ledger's answers stay the same: plans, which pieces are done, and by which version. The
    pieces' counts are lost, and a repeated piece begins with a higher attempt than any before. The
    deletes are ranges, in one transaction for each ledger. Only another purge must be locked out: a
    piece that a run begins meanwhile leaves the frontier, and keeps its row. `keep_days` is at
    least 1, so that no living run still has such a piece.

    Raises:
        InvalidInput: `keep_days` is less than one.
    """
    settings = run.settings
    if keep_days < 1:
        raise InvalidInput(
            f"rows of the ledger cannot go after {keep_days} days",
            where="retention of the ledger",
            do="keep them for a day at least",
        )
    ended_before = to_millis(run.moment - timedelta(days=keep_days))
    ledgers = retention.old_rows(run.control, settings, ended_before)
    deletable = [ledger for ledger in ledgers if ledger.rows]

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        ranges = 0
        for ledger in deletable:
            ensure_locked()
            ranges += ledger.delete()
        return {**counts, "ranges_deleted": ranges}

    tombstones = Tombstones(ranges=sum(len(ledger.ranges) for ledger in deletable))
    counts = {"ledger_rows_deleted": sum(ledger.rows for ledger in deletable)}
    return TargetPlan(
        counts,
        [line for ledger in ledgers for line in _lines(ledger)],
        tombstones,
        digest((ledger.partition.key, ledger.ranges) for ledger in deletable),
        [f"ledger/{settings.keyspace}/{settings.journal_keyspace}"],
        apply if deletable else None,
    )


def _lines(ledger: OldRows) -> Sequence[str]:
    application, subject, size = ledger.partition.key
    name = f"ledger of {application}, {subject}, {size}"
    lines = []
    if ledger.rows:
        ranges = counted(len(ledger.ranges), "range")
        lines.append(f"{name}: {counted(ledger.rows, 'row')} of done pieces go, in {ranges}")
    if ledger.is_of_sizes:
        lines.append(f"{name}: keeps all rows, since there are pieces of other bucket sizes")
    if ledger.compared:
        lines.append(
            f"{name}: keeps the rows of {time_buckets(ledger.compared)}: they say whether tag-write"
            " or purge came last"
        )
    return lines
