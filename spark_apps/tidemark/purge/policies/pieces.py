"""The pieces of policies that are not purged by time bucket: one piece for each policy name.

As in the ledger of time buckets, `attempt` is the fencing number: a run raises it by a lightweight
transaction when it starts the piece, and only that run can record how the piece ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemark import clock
from tidemark.application.guarded_change import EnsureLocked
from tidemark.cassandra.conditional import compare_and_set
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.errors import LockLost, TidemarkError, reason_of
from tidemark.ledger.piece import State


@dataclass(frozen=True)
class PolicyPiece:
    """The ledger's row of a policy's piece."""

    state: State
    attempt: int
    touched_at: datetime


class PolicyPieces:
    """The pieces of one application on one journal keyspace, by policy name."""

    def __init__(self, run: RunContext) -> None:
        """Bind to the run's application and journal keyspace."""
        self._run = run
        self._key = {"application": run.application, "subject": run.settings.journal_keyspace}
        self._table = table(run.settings.keyspace, "policy_piece")

    def entries(self) -> dict[str, PolicyPiece]:
        """Return the pieces that a run has started, by name."""
        rows = self._run.control.execute(
            f"SELECT name, state, attempt, started_at, finished_at FROM {self._table}"
            " WHERE application = ? AND subject = ?",
            list(self._key.values()),
        )
        return {
            row["name"]: PolicyPiece(
                State(row["state"]),
                row["attempt"],
                max(at for at in (row["started_at"], row["finished_at"]) if at).replace(tzinfo=UTC),
            )
            for row in rows
        }

    def start(self, name: str) -> int:
        """Record that the run starts a piece; return the attempt, with which to finish it.

        Raises:
            LockLost: another run has started it since it was read.
        """
        entry = self.entries().get(name)
        attempt = (entry.attempt if entry else 0) + 1
        values = {
            "state": State.RUNNING,
            "attempt": attempt,
            "owner": self._run.owner,
            "run_id": self._run.run_id,
            "error": None,
            "started_at": clock.now(),
        }
        self._write(name, values, None if entry is None else {"attempt": entry.attempt})
        self._run.progress.planned += 1
        return attempt

    def finish(
        self,
        name: str,
        attempt: int,
        state: State,
        counts: Mapping[str, int],
        error: str | None = None,
    ) -> None:
        """Record how a piece ended, as the last of its writes.

        Raises:
            LockLost: another run has taken it over.
        """
        values = {
            "state": state,
            "counts": dict(counts),
            "error": error,
            "finished_at": clock.now(),
        }
        self._write(name, values, {"attempt": attempt})
        if state is State.DONE:
            self._run.progress.done += 1

    def _write(
        self, name: str, values: Mapping[str, object], expected: Mapping[str, object] | None
    ) -> None:
        key = {**self._key, "name": name}
        if not compare_and_set(self._run.control, self._table, key, values, expected=expected):
            raise LockLost(
                f"another run has taken the policy {name}",
                where=f"owner {self._run.owner}",
                do="run again when it has ended",
            )


@contextmanager
def recorded_failure(ensure_locked: EnsureLocked, fail: Callable[[str], None]) -> Iterator[None]:
    """Call `fail` with the reason of an error of the block.

    It is not called if the locks are lost, or if the run was ended.
    """
    try:
        yield
    except Exception as error:
        # A second failure here (lock lost, Cassandra down) must not hide the first.
        with suppress(TidemarkError):
            ensure_locked()
            fail(reason_of(error))
        raise
