"""The notices of hooks, and whether they were delivered."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Literal

from tidemark import clock
from tidemark.cassandra.schema import table
from tidemark.context import RunContext

BEGINS = "begins"
"""The moment of a hook `before`."""


@dataclass(frozen=True, order=True)
class Notice:
    """A notice for one hook.

    Attributes:
        event: the event.
        told: `begins`, or the state in which the event or its group has ended.
        number: the index of the hook among those of its moment.
    """

    event: str
    told: str
    number: int


@dataclass(frozen=True)
class Delivery:
    """The delivery of a notice.

    Attributes:
        notice: the notice.
        state: `pending` until it was delivered, or given up as failed.
        target: the receiver.
        attempts: how often it was sent.
        reason: why it was given up; while it is pending, the reason in the notice.
    """

    notice: Notice
    state: Literal["pending", "delivered", "failed"]
    target: str
    attempts: int
    reason: str = ""


class Deliveries:
    """The deliveries of a stream."""

    def __init__(self, run: RunContext, stream: str) -> None:
        self._run, self._control, self._stream = run, run.control, stream
        self._table = table(run.settings.keyspace, "hook_delivery")

    def of(self, group: str) -> list[Delivery]:
        """Return the deliveries of a group, by event."""
        rows = self._control.execute(
            f"SELECT event, told, number, state, target, attempts, reason FROM {self._table}"
            " WHERE stream = ? AND group_id = ?",
            (self._stream, group),
        )
        return [
            Delivery(
                Notice(row["event"], row["told"], row["number"]),
                row["state"],
                row["target"],
                row["attempts"],
                row["reason"] or "",
            )
            for row in rows
        ]

    def newest_write_time(self, group: str) -> int:
        """Return when the group's newest delivery was written, in microseconds; 0 without one."""
        key = {"stream": self._stream, "group_id": group}
        return self._control.newest_write_time(self._table, "state", key)

    def record(self, group: str, delivery_id: uuid.UUID, delivery: Delivery) -> None:
        """Store a delivery."""
        row = {
            "stream": self._stream,
            "group_id": group,
            "event": delivery.notice.event,
            "told": delivery.notice.told,
            "number": delivery.notice.number,
            "id": delivery_id,
            "state": delivery.state,
            "target": delivery.target,
            "attempts": delivery.attempts,
            "reason": delivery.reason.encode("utf-8", "backslashreplace").decode() or None,
            "run_id": self._run.run_id,
            "updated_at": clock.now(),
        }
        self._control.execute(
            f"INSERT INTO {self._table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
            list(row.values()),
        )
