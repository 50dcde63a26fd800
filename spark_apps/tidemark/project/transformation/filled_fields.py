"""Which declared fields the events have, to find those that are not spelt as in the payload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from pyspark.sql import Row


@dataclass
class FilledFields:
    """How many events could be read, and in how many of them each declared field is not null."""

    events: int = 0
    filled: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, counts: Iterable[Row]) -> Self:
        """Sum up the rows of `transform.counts_by_bucket`."""
        fields = cls()
        for row in counts:
            fields.add(cls(row.readable, Counter(row.filled)))
        return fields

    def add(self, others: FilledFields) -> None:
        """Add the counts of other events."""
        self.events += others.events
        self.filled.update(others.filled)

    def doubts(self, place: str) -> list[str]:
        """Name the fields that are null in every event of `place`; none without events."""
        return [
            f"the field {name} is null in {place}: is it spelt as in the payload?"
            for name, filled in self.filled.items()
            if self.events and not filled
        ]
