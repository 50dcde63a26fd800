"""reconcile settle: an event that no reader could read stays as it is, and validate goes on.

Such an event has no row and takes no number, so nothing behind it is wrong; but nobody will ever
see it. So validate reports it until somebody has stated that this is right, and why.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemark import clock
from tidemark.application.guarded_change import EnsureLocked, Plan
from tidemark.cassandra.control import Row
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.continuity.findings.unwritable import SETTLED
from tidemark.errors import InvalidInput
from tidemark.journal import frames, increments
from tidemark.reconciliation.operation import Operation
from tidemark.spark.local_rows import local_rows
from tidemark.tagging import events, rules


def operation(persistence_id: str, sequence_nr: int, reason: str) -> Operation:
    """Settle one event.

    Raises:
        InvalidInput: the reason is empty. When planning: there is no such event, or it can be
            read.
    """
    if not reason.strip():
        raise InvalidInput("no reason", where="--reason", do="say why nobody needs this event")
    settle = _Settle(persistence_id, sequence_nr, reason.strip())
    return Operation("settle", f"{persistence_id} {sequence_nr}", settle.plan)


@dataclass(frozen=True)
class _Settle:
    persistence_id: str
    sequence_nr: int
    reason: str

    def plan(self, run: RunContext) -> Plan:
        settled = self._settled(run)
        open_events = [event for event in self._unwritable(run) if event[0] not in settled]
        counts = {"events_settled": len(open_events)}
        if not open_events:
            return Plan(counts, ["it is settled already"], None)
        lines = [
            f"settles {self.persistence_id} {self.sequence_nr} at {timestamp} ({cause}):"
            f" {self.reason}"
            for timestamp, cause in open_events
        ]

        def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
            ensure_locked()
            self._store(run, open_events)
            return counts

        return Plan(counts, lines, apply)

    def _store(self, run: RunContext, events_settled: Sequence[tuple[str, str]]) -> None:
        """Store events as settled, each given by its timestamp (timeuuid text) and cause."""
        for timestamp, cause in events_settled:
            run.control.execute(
                f"INSERT INTO {table(run.settings.keyspace, SETTLED)} (journal_keyspace,"
                " persistence_id, sequence_nr, timestamp, cause, reason, owner, settled_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*self._key(run), uuid.UUID(timestamp), cause, self.reason, run.owner, clock.now()),
            )

    def _key(self, run: RunContext) -> tuple[str, str, int]:
        return run.settings.journal_keyspace, self.persistence_id, self.sequence_nr

    def _settled(self, run: RunContext) -> set[str]:
        rows: list[Row] = run.control.execute(
            f"SELECT timestamp FROM {table(run.settings.keyspace, SETTLED)}"
            " WHERE journal_keyspace = ? AND persistence_id = ? AND sequence_nr = ?",
            self._key(run),
        )
        return {str(row["timestamp"]) for row in rows}

    def _unwritable(self, run: RunContext) -> list[tuple[str, str]]:
        spark, settings = run.spark, run.settings
        event = local_rows(
            spark,
            [(self.persistence_id, self.sequence_nr)],
            "persistence_id string, sequence_nr bigint",
        )
        keys = increments.keys_of(event, settings)
        messages = frames.messages_of(keys, settings, *events.READ).localCheckpoint()
        if messages.isEmpty():
            raise self._refused("there is no such event in messages", "check both, see `finding`")
        tagged = events.tagged(messages, rules.load(settings.tagging_dir))
        rows = events.unwritable(tagged).collect()
        if not rows:
            raise self._refused(
                "this event can be read, or carries no tag",
                "nothing is to be settled: a row that it lacks is written by `reconcile.py repair`",
            )
        return [(row.timestamp, row.cause) for row in rows]

    def _refused(self, what: str, do: str) -> InvalidInput:
        where = f"--persistence-id {self.persistence_id} --sequence-nr {self.sequence_nr}"
        return InvalidInput(what, where=where, do=do)
