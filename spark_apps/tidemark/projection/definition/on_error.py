"""What becomes of an event that cannot be read or processed.

The four policies are those of Pekko's and Akka's projections (docs/real-systems.md, "Recovery
strategies"), with one rule of our own: an event that is skipped counts as consumed, always.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class OnError:
    """One policy.

    Attributes:
        fails: whether the projection stops in the end; otherwise the event is left out.
        retries: how often the user's Python is called again for an event before that.
        delay_s: how long to wait before each time, in seconds.
    """

    fails: bool = False
    retries: int = 0
    delay_s: float = 0.0

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
"""The policy of who states none."""
