"""Work for each application and mode: a journal that gets more of it before each run.

Two journals of the same work end alike, however their runs were disturbed.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

from tests.faults import (
    test_crashes,
    test_event_group_crashes,
    test_event_group_many_crashes,
    test_purge_crashes,
    test_replicate_crashes,
)
from tests.integration.event_groups import test_event_groups, test_many
from tests.integration.flights import WINDOW, FlightsJournal, defined, first_events, message
from tests.integration.kafka_topic import Topic
from tests.integration.support import Journal, Result

FIRST, MORE = 300, 30
"""Events before the first run over flights, and before each further one."""


@dataclass(frozen=True)
class Setting:
    """Where work is.

    Attributes:
        make_journal: as the fixture.
        kafka: address of the broker.
        directory: of this work alone; it is not there yet.
        flights: how many flights there are at most.
    """

    make_journal: Callable[..., Journal]
    kafka: str
    directory: Path
    flights: int


class Work(ABC):
    """Work of one application."""

    command: Sequence[str]
    """The application and its arguments."""
    result: str
    """What it is all about: the part of `everything` that must not be empty."""
    most_errors = 1
    """How many lines of error a run that fails may have."""
    status = 0
    """That of a run that nothing disturbs; one that finds nothing left to do has 0."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    @abstractmethod
    def grow(self) -> None:
        """Add to the work, and let what is upstream do its part."""

    @abstractmethod
    def everything(self) -> Mapping[str, Any]:
        """Return all that is stored, without names and times of runs."""


class OfFlights(Work):
    """A journal of flights."""

    definitions: Sequence[str] = ("projections",)
    before: Sequence[str] = ()

    def __init__(self, setting: Setting) -> None:
        self._directory = setting.directory
        journal = defined(setting.make_journal, setting.directory, *self.definitions)
        super().__init__(journal)
        self._flights = FlightsJournal(journal, first_events(setting.flights))
        self._events, self._next = iter(self._flights.events), FIRST

    def grow(self) -> None:
        more = [message(event) for event in islice(self._events, self._next)]
        assert more, "there are no more events"
        self._next = MORE
        self.journal.insert("messages", more)
        for application in self.before:
            assert self.journal.run(application, *WINDOW, "--force").status == 0

    def everything(self) -> Mapping[str, Any]:
        files = test_crashes.exported(self._directory / "export")
        return {**test_crashes.without_lagging(self._flights.everything()), "export": files}


class TagWrite(OfFlights):
    result = "tag_views"
    command = ("tag_write", *WINDOW, "--force")


class Validate(OfFlights):
    result = "piece"
    command = ("validate", *WINDOW, "--force")
    before = ("tag_write",)


class Project(OfFlights):
    """Bucket and upsert, a projection each, which fail each for itself."""

    most_errors = 2
    result = "daily_punctuality"
    command: Sequence[str] = ("project", *WINDOW, "--force")
    before = ("tag_write", "validate")


class Slices(Project):
    result = "aircraft_state"
    command = (*Project.command, "--projection", "aircraft_state", "--slices", "0-511")


class Fold(Project):
    definitions = ("examples",)
    result = test_crashes.EXAMPLES["fold"]
    command = (*Project.command, "--projection", result)


class Append(Project):
    definitions = ("examples",)
    result = test_crashes.EXAMPLES["append"]
    command = (*Project.command, "--projection", result)


class Export(Project):
    definitions = ("examples",)
    result = "export"
    command = (*Project.command, "--projection", test_crashes.EXAMPLES["export"])


class Rebuild(OfFlights):
    result = "tag_views"
    command = ("reconcile", "rebuild", "--all", "--apply")
    before = ("tag_write",)


class Purge(Work):
    """Policies, with something to delete for each of them."""

    command = ("purge", "--apply")
    result = "policy_piece"

    def __init__(self, setting: Setting) -> None:
        setting.directory.mkdir()
        super().__init__(test_purge_crashes.prepare(setting.make_journal, setting.directory))

    def grow(self) -> None:
        test_purge_crashes.fill_own_tables(self.journal)

    def everything(self) -> Mapping[str, Any]:
        return test_purge_crashes.state(self.journal)


class Replicate(Work):
    """A topic that gets each kind of action."""

    command = ("replicate",)
    result = "journal"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting.make_journal())
        self._topic = Topic(setting.kafka)
        self._topic.feeds(self.journal, KAFKA_JOURNAL_SEGMENT_SIZE="3")
        self._rounds = count()

    def grow(self) -> None:
        topic, number = self._topic, next(self._rounds)
        first = 6 * number + 1
        topic.append("grows", [first, first + 1, first + 2], expire_after="1 day")
        topic.append(f"new {number}", [1, 2, 3, 4])
        topic.record(f"bad {number}".encode(), b"no JSON")
        topic.delete("grows", first + 1)
        topic.append("grows", [first + 3, first + 4, first + 5])
        topic.purge(f"new {number - 1}")
        topic.flush()

    def everything(self) -> Mapping[str, Any]:
        return test_replicate_crashes.state(self.journal)


class Groups(Work):
    """A group that is rolled back, and one that is not."""

    command = ("run_event_groups",)
    result = "posting"
    status = 3
    groups = test_event_group_crashes.GROUPS

    def __init__(self, setting: Setting) -> None:
        self._files, self._rounds = setting.directory, count()
        self._files.mkdir()
        super().__init__(self.stocked(setting))

    def grow(self) -> None:
        number = next(self._rounds)
        for way, text in reversed(list(self.groups.items())):
            group = re.sub("^group: .*", f"group: {way}-{number}", text, flags=re.MULTILINE)
            submitted = self.submit(group)
            assert submitted.status == 0, submitted.stderr

    def stocked(self, setting: Setting) -> Journal:
        """Return a journal with the user's tables."""
        return test_event_groups.stocked(setting.make_journal)

    def submit(self, group: str) -> Result:
        """Submit a group by its text."""
        return test_event_groups.submit(self.journal, self._files, group)

    def everything(self) -> Mapping[str, Any]:
        return test_event_group_crashes.state(self.journal)


class GroupsOverManyRows(Groups):
    """The same over many rows."""

    result = "item"
    groups = test_event_group_many_crashes.GROUPS

    def stocked(self, setting: Setting) -> Journal:
        journal = test_many.make(setting.make_journal)
        test_many.wanted(journal, test_event_group_many_crashes.ROWS)
        return journal

    def submit(self, group: str) -> Result:
        return test_many.submit(self.journal, self._files, group)

    def everything(self) -> Mapping[str, Any]:
        return test_event_group_many_crashes.state(self.journal)


WORKS: Mapping[str, Callable[[Setting], Work]] = {
    "tag_write": TagWrite,
    "validate": Validate,
    "project": Project,
    "slices": Slices,
    "fold": Fold,
    "append": Append,
    "export": Export,
    "rebuild": Rebuild,
    "purge": Purge,
    "replicate": Replicate,
    "groups": Groups,
    "groups over many rows": GroupsOverManyRows,
}
