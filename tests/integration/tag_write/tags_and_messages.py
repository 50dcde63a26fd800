"""The same projections over both sources, tags and messages, which must behave alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tests.integration.project.projections import (
    HOUR_MS,
    START_MS,
    TOTALS,
    TOTALS_TABLE,
    Event,
    Projections,
    event,
    totals,
)
from tests.integration.support import Journal
from tidemark.cassandra.control import Row

EVERY = TOTALS.replace("totals", "every").replace("{tags: [red, blue]}", "messages")
EVERY_TABLE = TOTALS_TABLE.replace("totals", "every")
BOTH = ("every", "totals")


def both_sources(
    make_journal: Callable[..., Journal], directory: Path, **settings: str
) -> Projections:
    """Define TOTALS and EVERY, with equal results if every event has one of TOTALS' tags."""
    # A search for a missing number goes back to this bucket.
    journal = make_journal(EVENTS_BY_TAG_FIRST_TIME_BUCKET="20240229T20", **settings)
    projections = Projections(journal, directory)
    projections.define(TOTALS, TOTALS_TABLE)
    projections.define(EVERY, EVERY_TABLE, file="two.sql")
    return projections


def red(pid: str, number: int, hours: float) -> Event:
    return event(pid, number, hours, "red", kind="in", amount=10**number)


def pieces(projections: Projections) -> dict[tuple[str, int], tuple[str, str, int]]:
    """Return state, reason and attempt of project's pieces, by projection and hour."""
    return {
        (row["subject"].partition("/")[2], (row["time_bucket"] - START_MS) // HOUR_MS): (
            row["state"],
            row["reason"],
            row["attempt"],
        )
        for row in projections.journal.own_rows("piece")
        if row["application"] == "project"
    }


def results(projections: Projections) -> dict[str, list[Row]]:
    return {name: projections.journal.rows(name) for name in BOTH}


def both(events: Iterable[Event]) -> dict[str, list[Row]]:
    return dict.fromkeys(BOTH, totals(events))


def reached(projections: Projections) -> dict[tuple[str, str], int]:
    return {key[:2]: number for key, (_, number, _) in projections.offsets().items()}
