"""What the ledger holds: pieces, their states, and why they are in a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class State(StrEnum):
    """The life of a piece."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    HELD = "held"


class Reason(StrEnum):
    """Why a piece is in a plan."""

    NEW = "new"
    MISSED = "missed"
    UNFINISHED = "unfinished"
    CHANGED = "changed definition"
    FORCED = "forced"
    LATE = "late"
    GAP = "gap"
    RESTATED = "restated"
    REBUCKETED = "other bucket size"


GAP_ERROR = "gap:"
"""What the error of a piece begins with that is held because events are missing."""


@dataclass(frozen=True)
class Piece:
    """A piece in a plan, with the attempt that the ledger knew when it was planned.

    One with attempt 0 has never been started, and unless it is UNFINISHED may have no row yet.
    """

    time_bucket: int
    reason: Reason
    attempt: int = 0


@dataclass(frozen=True)
class PieceRow:
    """A row of the ledger, or what rows of other bucket sizes say of a time bucket (attempt 0)."""

    time_bucket: int
    state: State
    attempt: int
    counts: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None
    definition_version: str | None = None
    finished_at: datetime | None = None
    reason: str | None = None
    touched_at: datetime | None = None

    @property
    def has_gap(self) -> bool:
        """Whether it waits for missing events."""
        return self.state is State.HELD and (self.error or "").startswith(GAP_ERROR)

    def is_done(self, version: str) -> bool:
        """Whether this version of the definition has processed the piece."""
        return self.state is State.DONE and (self.definition_version or "") == version

    @property
    def reason_if_open(self) -> Reason:
        """Why it is in a plan as long as it is not done."""
        if self.has_gap:
            return Reason.GAP
        if self.reason == Reason.REBUCKETED:
            return Reason.REBUCKETED
        if self.state is State.PLANNED and self.reason not in (None, Reason.NEW):
            return Reason(self.reason)
        return Reason.UNFINISHED
