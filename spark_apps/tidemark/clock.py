"""The present time, for all code that depends on it.

Applications read the time here and nowhere else, so that a test can play weeks in minutes. Code
that only measures durations (a lock's time to live, progress for people) uses a monotonic clock.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from tidemark.window import EPOCH


def now() -> datetime:
    """Return the present, aware and in UTC."""
    return datetime.now(UTC)


def now_micros() -> int:
    """Return the present in microseconds since 1970, as Cassandra counts write times."""
    return (now() - EPOCH) // timedelta(microseconds=1)


def machine_micros() -> int:
    """Return the machine's own present in microseconds since 1970.

    For what other machines compare with theirs: a test that plays weeks leaves it alone.
    """
    return time.time_ns() // 1000
