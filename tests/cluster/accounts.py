"""The events of the journals on clusters, and the window that they lie in."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.integration.project.projections import Event, event

WINDOW = ("--window-start", "2024-03-01T00:00:00Z", "--window-end", "2024-03-01T03:00:00Z")


def events() -> Iterator[Event]:
    """Yield fifteen events of each of twelve accounts, tagged at random."""
    dice = Random(5)
    for pid in (f"account|{n}" for n in range(12)):
        hours = sorted(dice.uniform(0, 2.99) for _ in range(15))
        for number, hour in enumerate(hours, 1):
            tags = dice.sample(("red", "blue", "green"), dice.randrange(3))
            yield event(pid, number, hour, *tags, kind="in", amount=dice.randrange(100))
