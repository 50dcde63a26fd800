"""What becomes of an event that cannot be read or processed.

The four policies are those of Pekko's and Akka's projections (docs/real-systems.md, "Recovery
strategies"), with one rule of our own: an event that is skipped counts as consumed, always.
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
        number: of events, or percent of the events that are read.
        is_percent: which of both.
    """

    number: Decimal
    is_percent: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a whole number, or a percentage such as `0.1%`."""
        return cls(Decimal(text.rstrip("% ")), text.endswith("%"))

    def allows(self, skipped: int, read: int) -> bool:
        """Return whether so many events of those that were read may be skipped."""
        return skipped * 100 <= self.number * read if self.is_percent else skipped <= self.number

    def __str__(self) -> str:
        """Return the limit as the definition states it."""
        return f"{self.number}{'%' if self.is_percent else ''}"


@dataclass(frozen=True)
class OnError:
    """One policy.

    Attributes:
        fails: whether the event's time bucket fails in the end; otherwise the event is skipped.
        retries: how often the user's Python is called again for an event before that.
        delay_s: how long to wait before each time, in seconds.
        most_skipped: above which number of skipped events their time bucket fails; None for no
            limit.
    """

    fails: bool = False
    retries: int = 0
    delay_s: float = 0.0
    most_skipped: MostSkipped | None = None

    def attempt(self, call: Callable[[], Answer]) -> Answer:
        """Call once, and again as often as the policy says.

        Raises:
            Exception: what the last call raised.
        """
        for _ in range(self.retries):
            try:
                return call()
            except Exception:
                time.sleep(self.delay_s)
        return call()


SKIP = OnError()
"""Skip without another try and without a limit."""
