"""The rows of the ledger that its frontier speaks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.ledger.frontier import retention
from tidemark.ledger.frontier.retention import OldRows
from tidemark.ledger.schedule import time_buckets
from tidemark.purge.target import TargetPlan, Tombstones, digest
from tidemark.text import counted
from tidemark.window import to_millis


def plan_ledger(run: RunContext, keep_days: int) -> TargetPlan:
    """Plan to delete the rows of done pieces, each of a span that ended `keep_days` ago or earlier.

    What the ledger says stays the same: plans, what is done, and by which version. Counts of these
    pieces are gone, and a piece that is done again begins with a higher attempt than any before.
    The deletes are ranges, in one transaction for each ledger. Nothing need be locked but another
    purge: a piece that a run begins meanwhile leaves the frontier, and keeps its row.

    Args:
        run: the context of the run.
        keep_days: at least one, so that no run is alive which still holds such a piece.

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
    found = retention.old_rows(run.control, settings, ended_before)
    old = [rows for rows in found if rows.rows]

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        ranges = 0
        for rows in old:
            ensure_locked()
            ranges += rows.delete()
        return {**counts, "ranges_deleted": ranges}

    tombstones = Tombstones(ranges=sum(len(rows.ranges) for rows in old))
    counts = {"ledger_rows_deleted": sum(rows.rows for rows in old)}
    return TargetPlan(
        counts,
        [line for rows in found for line in _lines(rows)],
        tombstones,
        digest((rows.partition.key, rows.ranges) for rows in old),
        [f"ledger/{settings.keyspace}/{settings.journal_keyspace}"],
        apply if old else None,
    )


def _lines(rows: OldRows) -> Sequence[str]:
    application, subject, size = rows.partition.key
    name = f"ledger of {application}, {subject}, {size}"
    lines = []
    if rows.rows:
        ranges = counted(len(rows.ranges), "range")
        lines.append(f"{name}: {counted(rows.rows, 'row')} of done pieces go, in {ranges}")
    if rows.is_of_sizes:
        lines.append(f"{name}: keeps all rows, since there are pieces of other bucket sizes")
    if rows.compared:
        lines.append(
            f"{name}: keeps the rows of {time_buckets(rows.compared)}: they say whether tag-write"
            " or purge came last"
        )
    return lines
