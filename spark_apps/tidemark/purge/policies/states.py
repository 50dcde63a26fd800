"""The states of the policies of purge, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tidemark.cassandra.control import Row
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.ledger.applications import PURGE
from tidemark.ledger.piece import State


@dataclass(frozen=True)
class PolicyState:
    """A policy that a run has started to apply."""

    name: str
    state: State
    attempt: int
    owner: str
    run_id: str
    started_at: datetime | None
    finished_at: datetime | None
    counts: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None


def page(run: RunContext, *, limit: int, after: str = "") -> Sequence[PolicyState]:
    """Return the policies of the journal that a run has started, in the order of their names."""
    rows = run.control.execute(
        "SELECT name, state, attempt, owner, run_id, started_at, finished_at, counts, error"
        f" FROM {table(run.settings.keyspace, 'policy_piece')}"
        " WHERE application = ? AND subject = ? AND name > ? LIMIT ?",
        (PURGE, run.settings.journal_keyspace, after, limit),
    )
    return [_state(row) for row in rows]


def _state(row: Row) -> PolicyState:
    return PolicyState(
        *(
            row["name"],
            State(row["state"]),
            row["attempt"],
            row["owner"] or "",
            row["run_id"] or "",
        ),
        *(_aware(row["started_at"]), _aware(row["finished_at"])),
        dict(row["counts"] or {}),
        row["error"],
    )


def _aware(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=UTC)
