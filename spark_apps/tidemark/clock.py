"""The present time, for all code that depends on it.

Applications read the time only here, so that a test can simulate weeks in minutes. Code that only
measures durations (a lock's TTL, progress for people) uses a monotonic clock.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from tidemark.window import EPOCH


def now() -> datetime:
    """Return the present time, aware and in UTC."""
    return datetime.now(UTC)


def now_micros() -> int:
    """Return the present time in microseconds since 1970, the unit of Cassandra's write times."""
    return (now() - EPOCH) // timedelta(microseconds=1)


def machine_micros() -> int:
    """Return the time of the machine's clock in microseconds since 1970, even in simulations.

    For times that other machines compare with their clocks.
    """
    return time.time_ns() // 1000
