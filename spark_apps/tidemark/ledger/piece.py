"""The types of the ledger: pieces, their states, and the reasons why plans contain them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class State(StrEnum):
    """The state of a piece."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    HELD = "held"


class Reason(StrEnum):
    """The reason why a plan contains a piece."""

    NEW = "new"
    HISTORY = "history"
    MISSED = "missed"
    UNFINISHED = "unfinished"
    CHANGED = "changed definition"
    FORCED = "forced"
    LATE = "late"
    GAP = "gap"
    RESTATED = "restated"
    REBUCKETED = "other bucket size"


GAP_ERROR = "gap:"
"""The start of the error of a piece that is held because events are missing."""


@dataclass(frozen=True)
class Piece:
    """A piece in a plan, with the attempt that the ledger held at the time of planning.

    A piece with attempt 0 has never been started and, unless its reason is UNFINISHED, may have no
    row in the ledger yet.
    """

    time_bucket: int
    reason: Reason
    attempt: int = 0


@dataclass(frozen=True)
class PieceRow:
    """A row of the ledger, or one derived from rows of other bucket sizes (attempt 0)."""

    time_bucket: int
    state: State
    attempt: int
    counts: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None
    definition_version: str | None = None
    finished_at: datetime | None = None
    reason: str | None = None
    touched_at: datetime | None = None
    run_id: str | None = None

    @property
    def has_gap(self) -> bool:
        """Whether the piece waits for missing events."""
        return self.state is State.HELD and (self.error or "").startswith(GAP_ERROR)

    def is_done(self, version: str) -> bool:
        """Return whether the given version of the definition has processed the piece."""
        return self.state is State.DONE and (self.definition_version or "") == version

    @property
    def reason_if_open(self) -> Reason:
        """The reason why a plan contains the piece until it is done."""
        if self.has_gap:
            return Reason.GAP
        if self.reason == Reason.REBUCKETED:
            return Reason.REBUCKETED
        if self.state is State.PLANNED and self.reason not in (None, Reason.NEW):
            return Reason(self.reason)
        return Reason.UNFINISHED
