"""Policies for events that cannot be decoded or processed.

The four policies are those of Pekko's and Akka's projections (docs/real-systems.md, "Recovery
strategies"). In Tidemark a skipped event always counts as consumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Self, TypeVar

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class MostSkipped:
    """The most events of a time bucket that may be skipped.

    Attributes:
        number: number of events, or percentage of the events that are read.
        is_percent: whether `number` is a percentage.
    """

    number: Decimal
    is_percent: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a whole number, or a percentage such as `0.1%`."""
        return cls(Decimal(text.rstrip("% ")), text.endswith("%"))

    def allows(self, skipped: int, read: int) -> bool:
        """Return whether `skipped` of `read` events may be skipped."""
        return skipped * 100 <= self.number * read if self.is_percent else skipped <= self.number

    def __str__(self) -> str:
        """Return the limit as the definition states it."""
        return f"{self.number}{'%' if self.is_percent else ''}"


@dataclass(frozen=True)
class OnError:
    """A policy for events that cannot be decoded or processed.

    Attributes:
        fails: whether the event's time bucket fails after all retries; otherwise the event is
            skipped.
        retries: how often to call the user's Python again for an event.
        delay_s: seconds to wait before each retry.
        most_skipped: limit of skipped events, above which the time bucket fails; None for no limit.
    """

    fails: bool = False
    retries: int = 0
    delay_s: float = 0.0
    most_skipped: MostSkipped | None = None

    def attempt(self, call: Callable[[], Answer]) -> Answer:
        """Call a function, with the policy's retries; raise the error of the last call."""
        for _ in range(self.retries):
            try:
                return call()
            except Exception:
                time.sleep(self.delay_s)
        return call()


SKIP = OnError()
"""Skip without retries and without a limit."""
