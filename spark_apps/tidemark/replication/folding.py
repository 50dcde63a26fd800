"""How the actions of a range are folded; without Spark, since the ledger keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Batch:
    """What all actions of a run have in common.

    Attributes:
        at: the time of the run.
        zone: the time zone of the dates on which journals expire.
        segment_size: number of events in a segment of journal whose head is made now.
    """

    at: datetime
    zone: str
    segment_size: int
