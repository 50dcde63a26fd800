"""Checks that reconcile did not change the tag views while a projection read them.

A rebuild deletes partitions before it writes them again: rows read meanwhile are incomplete. If the
projection took the lock of the tag views instead, it would stop tag-write.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from tidemark import clock
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.errors import LockHeld
from tidemark.journals.pekko import tables
from tidemark.ledger.applications import RECONCILE
from tidemark.project.definition.model import Definition


@dataclass(frozen=True)
class ReconcileGuard:
    """The operations of reconcile before a projection read its first row.

    Attributes:
        reads_tag_views: whether the projection does; otherwise there is nothing to guard.
        day: the day of the audit trail on which the read began.
        earlier: the operations of reconcile before the read.
    """

    run: RunContext
    reads_tag_views: bool
    day: str
    earlier: frozenset[UUID]

    @classmethod
    def begin(cls, run: RunContext, definition: Definition) -> ReconcileGuard:
        """Read the operations of reconcile; call it before all other reads.

        Raises:
            LockHeld: reconcile is running.
        """
        day, reads_tag_views = _today(), definition.source.reads_tag_views
        if reads_tag_views:
            _require_unlocked(run)
        earlier = _operations(run, {day}) if reads_tag_views else frozenset()
        return cls(run, reads_tag_views, day, earlier)

    def require_undisturbed(self) -> None:
        """Require that reconcile has not worked since `begin`; call it before all writes.

        Raises:
            LockHeld: reconcile is running, or was since `begin`.
        """
        if not self.reads_tag_views:
            return
        _require_unlocked(self.run)
        if _operations(self.run, {self.day, _today()}) - self.earlier:
            raise LockHeld(
                "reconcile has changed the tag views while they were read",
                where=self.run.settings.journal_keyspace,
                do="run again when it has ended",
            )


def _today() -> str:
    return f"{clock.now():%Y-%m-%d}"


def _require_unlocked(run: RunContext) -> None:
    resource = tables.lock_of(run.settings)
    rows = run.control.execute(
        f"SELECT owner FROM {table(run.settings.keyspace, 'lock')} WHERE resource = ?", (resource,)
    )
    if rows:
        raise LockHeld(
            f"{resource} is held by {rows[0]['owner']}: tag views may be incomplete",
            do=f"wait for it to end; if it died, its lock expires within {run.settings.lock_ttl} s",
        )


def _operations(run: RunContext, days: set[str]) -> frozenset[UUID]:
    """Read the times of the audit rows of reconcile on this journal on some days."""
    rows = [
        row
        for day in days
        for row in run.control.execute(
            "SELECT at, application, subject, dry_run FROM"
            f" {table(run.settings.keyspace, 'audit')} WHERE day = ?",
            (day,),
        )
    ]
    journal = f"{run.settings.journal_keyspace}: "
    return frozenset(
        row["at"]
        for row in rows
        if row["application"] == RECONCILE
        and row["subject"].startswith(journal)
        and not row["dry_run"]
    )
