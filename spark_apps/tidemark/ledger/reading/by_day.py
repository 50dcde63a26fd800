"""Pages of tables with a partition for each UTC day, the newest row first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Generic, TypeVar

Row = TypeVar("Row")
DAYS_READ = 32
"""The most days that one answer reads: as many requests."""


@dataclass(frozen=True)
class DayPage(Generic[Row]):
    """Rows, and the day at which the next page begins.

    Attributes:
        rows: the newest first.
        next_day: the day of the next page; None if there is none.
        goes_on_within: whether that day is the one of the last row, and the page begins after it.
    """

    rows: Sequence[Row]
    next_day: date | None
    goes_on_within: bool = False


def days_back(
    read: Callable[[date, int], Sequence[Row]], newest: date, oldest: date, limit: int
) -> DayPage[Row]:
    """Read days one after the other, the newest first, until there are enough rows.

    Args:
        read: reads the newest rows of a day, as many as its second argument says.
        newest: the first day.
        oldest: the last day that can have rows.
        limit: the most rows.
    """
    rows: list[Row] = []
    day = newest
    for _ in range(DAYS_READ):
        if day < oldest:
            return DayPage(rows, None)
        rows += read(day, limit - len(rows))
        if len(rows) == limit:
            return DayPage(rows, day, goes_on_within=True)
        day -= timedelta(days=1)
    return DayPage(rows, day if day >= oldest else None)
