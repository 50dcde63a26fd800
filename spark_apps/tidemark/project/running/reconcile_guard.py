"""Whether reconcile has touched the tag views while a projection read them.

A rebuild deletes partitions before it writes them again: what is read meanwhile is a part of them,
and looks like a result with less in it. A lock of its own would have a projection stop tag-write.
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
    """The operations of reconcile that were known before a projection read its first row.

    Attributes:
        run: the context of the run.
        is_asked: whether the projection reads tag views.
        day: the day of the audit trail on which the read began.
        known: the operations of reconcile up to then.
    """

    run: RunContext
    is_asked: bool
    day: str
    known: frozenset[UUID]

    @classmethod
    def begin(cls, run: RunContext, definition: Definition) -> ReconcileGuard:
        """Read the operations of reconcile before anything else is read.

        Raises:
            LockHeld: reconcile is at work.
        """
        day, is_asked = _today(), definition.source.reads_tag_views
        if is_asked:
            _require_unlocked(run)
        return cls(run, is_asked, day, _operations(run, {day}) if is_asked else frozenset())

    def require_undisturbed(self) -> None:
        """Compare the operations of reconcile before anything is written.

        Raises:
            LockHeld: reconcile is at work, or was since `begin`.
        """
        if not self.is_asked:
            return
        _require_unlocked(self.run)
        if _operations(self.run, {self.day, _today()}) - self.known:
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
    """Read the audit rows of what reconcile has begun or ended on this journal on some days."""
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
