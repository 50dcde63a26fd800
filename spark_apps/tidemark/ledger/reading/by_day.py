"""Pages of tables with a partition for each UTC day, the newest row first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Generic, TypeVar

Row = TypeVar("Row")
DAYS_READ = 32
"""The most days that an answer reads, with one request for each day."""


@dataclass(frozen=True)
class DayPage(Generic[Row]):
    """Rows, and the day with which the next page begins.

    Attributes:
        rows: the rows, the newest first.
        next_day: the day with which the next page begins; None if there is no next page.
        goes_on_within: whether the next page begins after the last row, within `next_day`.
    """

    rows: Sequence[Row]
    next_day: date | None
    goes_on_within: bool = False


def days_back(
    read: Callable[[date, int], Sequence[Row]], newest: date, oldest: date, limit: int
) -> DayPage[Row]:
    """Read days from the newest to the oldest, until there are `limit` rows.

    `read` returns the newest rows of a day, at most as many as its second argument.
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
