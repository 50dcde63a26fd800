"""The common context of the actions that a run folds; without Spark, since the ledger stores it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class ActionBatch:
    """The context of all actions of a run.

    Attributes:
        at: the time of the run.
        zone: the time zone of the dates on which journals expire.
        segment_size: the number of events in a journal segment, for heads that this run creates.
    """

    at: datetime
    zone: str
    segment_size: int
