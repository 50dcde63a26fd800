"""Runs of project, in each mode, repeatedly killed between the result and the offset.

Before every run events come: next ones, late ones, and some that are stored a second time. In the
end the target must equal the result of loops over the events, and each offset the highest number.
`--kills` sets the number of kills of all modes together (`make soak`: 100).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.faults.killing import kill_after
from tests.faults.seams import Seam
from tests.integration.project.fold_books import TABLE as BOOKS_TABLE
from tests.integration.project.fold_books import books
from tests.integration.project.fold_books import define as define_books
from tests.integration.project.projections import (
    GREGORIAN,
    LATEST,
    LATEST_TABLE,
    START,
    TOTALS,
    TOTALS_TABLE,
    Event,
    Projections,
    amount,
    event,
    kind,
    totals,
)
from tests.integration.project.test_modes import LAKE, LOG, LOG_TABLE, exported, logged
from tests.integration.support import Journal

PERSISTENCE_IDS = ("a|1", "a|2", "a|3", "b|1", "b|2", "c|1")
TAGS: Sequence[tuple[str, ...]] = (("red",), ("blue",), ("red", "blue"), ())


@dataclass
class Arrivals:
    """The events that come to a journal, hour by hour.

    Attributes:
        events: all events that ever happened, each once.
        withheld: events that have happened and come late, with the next hour.
        hours: the number of hours that have begun.
    """

    projections: Projections
    chance: random.Random
    events: list[Event] = field(default_factory=list)
    withheld: list[Event] = field(default_factory=list)
    hours: int = 0

    def come(self, withheld: float = 0.25) -> None:
        """Store another hour: a quarter of its events is withheld, a quarter is in earlier hours.

        A late event is found by a run that has an hour to process.
        """
        self.hours += 1
        fresh = []
        for pid in PERSISTENCE_IDS:
            stored = sum(event.persistence_id == pid for event in self.events)
            more = self.chance.randrange(1, 4)
            fresh += [self._happened(pid, stored + number) for number in range(1, more + 1)]
        self.events += fresh
        self.projections.history.update(fresh)
        late = self.withheld
        self.withheld = [event for event in fresh if self.chance.random() < withheld]
        self._store([*late, *(event for event in fresh if event not in self.withheld)])

    def _happened(self, pid: str, number: int) -> Event:
        is_early = self.chance.random() < 0.25
        hour = self.chance.randrange(self.hours) if is_early else self.hours - 1
        minute = self.chance.randrange(45)
        fields = {"kind": self.chance.choice(["in", "out"]), "amount": number}
        return event(pid, number, hour + minute / 60, *self.chance.choice(TAGS), **fields)

    def _store(self, arrived: Sequence[Event]) -> None:
        present = [event for event in self.events if event not in self.withheld]
        again = self.chance.sample(present, k=len(present) // 4)
        # The events are doubled at another time in the same time bucket.
        doubled = [replace(event, hours=event.hours + 0.2) for event in again]
        self.projections.insert(*arrived, *doubled)
        self.projections.list_persistence_ids()
        newest = {
            (event.persistence_id, tag): replace(event, tags=frozenset({tag}))
            for event in present
            for tag in event.tags
        }
        self.projections.insert_progress(*newest.values())
        self.projections.validated(*range(self.hours))


@dataclass(frozen=True)
class Case:
    """A projection with its expected result.

    Attributes:
        name: the name of the projection.
        define: the function that writes the definition and makes the target.
        stored: the function that reads the target.
        expected: the function that computes the target by loops over the events.
        tags: the tags of the source; none for messages.
    """

    name: str
    define: Callable[[Projections], None]
    stored: Callable[[Projections], Any]
    expected: Callable[[Sequence[Event]], Any]
    tags: tuple[str, ...] = ()

    def frontiers(self, events: Sequence[Event]) -> dict[tuple[str, str, str], int]:
        """Return the highest number of each series, by projection, persistence id and tag."""
        if not self.tags:
            return dict(Counter((self.name, event.persistence_id, "") for event in events))
        return dict(
            Counter(
                (self.name, event.persistence_id, tag)
                for event in events
                for tag in event.tags.intersection(self.tags)
            )
        )


def newest(events: Sequence[Event]) -> dict[str, tuple[int, str, int]]:
    """Compute the rows of the projection LATEST, as `latest` reads them."""
    rows: dict[str, tuple[int, str, int]] = {}
    for written in sorted(events, key=lambda written: written.sequence_nr):
        rows[written.persistence_id] = (written.sequence_nr, kind(written), amount(written))
    return rows


def latest(projections: Projections) -> dict[str, tuple[int, str, int]]:
    return {
        row["persistence_id"]: (row["sequence_nr"], row["kind"], row["amount"])
        for row in projections.journal.rows("latest")
    }


def folded(events: Sequence[Event]) -> dict[str, tuple[int, int, list[int]]]:
    """Compute the rows of the fold of the books, as `books` reads them."""
    rows: dict[str, tuple[int, int, list[int]]] = {}
    for written in sorted(events, key=lambda written: written.sequence_nr):
        _, balance, numbers = rows.get(written.persistence_id, (0, 0, []))
        state = (written.sequence_nr, balance + amount(written), [*numbers, written.sequence_nr])
        rows[written.persistence_id] = state
    return rows


def log(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """Compute the rows of the projection LOG, as `logged` reads them."""
    return sorted(
        (event.persistence_id, event.sequence_nr, kind(event), int(event.hours) % 24, amount(event))
        for event in events
    )


def lake(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """Compute the rows of the projection LAKE, as `exported` reads them."""
    return sorted(
        (
            (
                event.time_bucket,
                event.persistence_id,
                event.sequence_nr,
                at(event),
                kind(event),
                amount(event),
            )
            for event in events
            if "red" in event.tags
        ),
        key=lambda row: row[1:3],
    )


def at(event: Event) -> datetime:
    return GREGORIAN + timedelta(microseconds=event.timestamp.time // 10)


def lake_files(projections: Projections) -> list[tuple[Any, ...]]:
    """Return the rows of the lake, in which no batch may be left out of place."""
    directory = projections.directory / "export" / "all"
    assert [path.name for path in directory.iterdir()] == ["events"]
    return exported(directory / "events")


CASES = {
    "bucket": Case(
        "totals",
        lambda projections: projections.define(TOTALS, TOTALS_TABLE),
        lambda projections: projections.journal.rows("totals"),
        totals,
        ("red", "blue"),
    ),
    "upsert": Case(
        "latest", lambda projections: projections.define(LATEST, LATEST_TABLE), latest, newest
    ),
    "fold": Case(
        "books", lambda projections: define_books(projections, table=BOOKS_TABLE), books, folded
    ),
    "append": Case(
        "log",
        lambda projections: projections.define(LOG, LOG_TABLE),
        lambda projections: logged(projections.journal.rows("log")),
        log,
    ),
    "export": Case(
        "lake", lambda projections: projections.define(LAKE), lake_files, lake, ("red",)
    ),
}
SAMPLE = "bucket"


@pytest.mark.parametrize(
    "mode", [pytest.param(one, marks=[] if one == SAMPLE else pytest.mark.soak) for one in CASES]
)
def test_killed_between_the_result_and_the_offset_nothing_is_lost_or_counted_twice(
    make_journal: Callable[..., Journal], tmp_path: Path, pytestconfig: pytest.Config, mode: str
) -> None:
    """After every second kill a run ends undisturbed, so that events are held and offsets move."""
    case, chance = CASES[mode], random.Random(mode)
    settings = {"EVENTS_BY_TAG_FIRST_TIME_BUCKET": "20240229T20"}
    journal = make_journal(EXPORT_DIR=str(tmp_path / "export"), **settings)
    projections = Projections(journal, tmp_path)
    case.define(projections)
    arrivals = Arrivals(projections, chance)
    definitions = {"PROJECTIONS_DIR": str(projections.directory)}
    for number in range(max(1, pytestconfig.getoption("kills") // len(CASES))):
        arrivals.come()
        before = projections.offsets()
        kill_after(journal, Seam.RESULT_WRITTEN, "project", *window(arrivals.hours), **definitions)
        assert projections.offsets() == before
        if number % 2:
            ran(projections, arrivals.hours)
    arrivals.come(withheld=0.0)
    ran(projections, arrivals.hours)

    assert case.stored(projections) == case.expected(arrivals.events)
    reached = {key: number for key, (_, number, _) in projections.offsets().items()}
    assert reached == case.frontiers(arrivals.events)
    assert {state for _, _, state, _ in projections.states()} == {"done"}
    assert journal.own_rows("quarantine") == []


def window(hours: int) -> tuple[str, ...]:
    end = START + timedelta(hours=hours)
    return ("--window-start", START.isoformat(), "--window-end", end.isoformat())


def ran(projections: Projections, hours: int) -> None:
    result = projections.run(0, hours)
    assert result.status == 0, result.stderr
