"""Counts which declared fields the events have, to find fields that are misspelt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from pyspark.sql import Row


@dataclass
class FilledFields:
    """The number of readable events, and for each declared field how often it is not null."""

    events: int = 0
    filled: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, counts: Iterable[Row]) -> Self:
        """Add up the rows of `transform.counts_by_bucket`."""
        fields = cls()
        for row in counts:
            fields.add(cls(row.readable, Counter(row.filled)))
        return fields

    def add(self, others: FilledFields) -> None:
        """Add the counts of other events."""
        self.events += others.events
        self.filled.update(others.filled)

    def doubts(self, place: str) -> list[str]:
        """Return a warning for each field that is null in every event of `place`."""
        return [
            f"the field {name} is null in {place}: is it spelt as in the payload?"
            for name, count in self.filled.items()
            if self.events and not count
        ]
