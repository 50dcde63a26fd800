"""The present, for everything that depends on it.

Every application asks here and nowhere else, so that a test can live through weeks in minutes. What
only measures how long something takes (a lock's time to live, progress for people) has a monotonic
clock of its own.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tidemark.window import EPOCH


def now() -> datetime:
    """The present, aware and in UTC."""
    return datetime.now(UTC)


def now_micros() -> int:
    """The present in microseconds since 1970, as Cassandra counts write times."""
    return (now() - EPOCH) // timedelta(microseconds=1)
