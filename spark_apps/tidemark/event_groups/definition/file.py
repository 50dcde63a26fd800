"""Event groups as files, and what can be told of them without Cassandra."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tidemark.errors import DefinitionError, InvalidInput
from tidemark.event_groups.definition import dag, statement
from tidemark.event_groups.definition.model import Compensation, DeclaredRow, Event, Group
from tidemark.event_groups.definition.statement import Statement
from tidemark.event_groups.definition.tokens import Refused
from tidemark.event_groups.stream.chunks import RowKey
from tidemark.headed_files.yaml_text import read_yaml_file

_EMPTY = ("the file has no event group", "write `group: its-name`")
Place = tuple[str | int, ...]
"""The path of a value in a definition."""
Fault = Callable[..., DefinitionError]
"""Makes an error of what is wrong, what to do, and the path of the value in the definition."""


@dataclass(frozen=True)
class Definition:
    """A group whose statements were parsed."""

    group: Group

    @cached_property
    def events(self) -> Mapping[str, Event]:
        """Return the events by name, in the order of the file."""
        return {one.name: one for one in self.group.events}

    @cached_property
    def graph(self) -> dag.Graph:
        """Return what each event depends on."""
        return {one.name: one.after for one in self.group.events}

    @cached_property
    def statements(self) -> Mapping[str, Statement]:
        """Return the statements by event; an empty event has none."""
        return {
            one.name: statement.parse(one.statement)
            for one in self.group.events
            if one.statement is not None
        }

    def compensations(self, name: str) -> list[Statement]:
        """Return the user's statements that take back an event."""
        rollback = self.events[name].rollback
        if not isinstance(rollback, Compensation):
            return []
        return [statement.parse(one.statement) for one in rollback.statements]

    @property
    def rows(self) -> frozenset[RowKey] | None:
        """Return the declared rows; None if there are none."""
        return frozenset(map(_row, self.group.rows)) or None

    def says(self) -> dict[str, str]:
        """Return what each event does, in a few words."""
        return {
            name: f"{self.statements[name].kind} {self.statements[name].name}"
            if name in self.statements
            else "nothing"
            for name in self.events
        }


def _row(one: DeclaredRow) -> RowKey:
    return one.table, tuple(sorted(one.key.items()))


def load(file: Path) -> tuple[Definition, Fault]:
    """Read a group and check all that its file can tell.

    Returns:
        the group, and what makes an error at a place in the file.

    Raises:
        InvalidInput: there is no such file.
        DefinitionError: the group cannot be used; the message names file, line, column and remedy.
    """
    if not file.is_file():
        raise InvalidInput("there is no such file", where=str(file), do="name a group in YAML")
    header = read_yaml_file(file, _EMPTY)
    group = header.checked(Group)
    _check(group, header.error)
    return Definition(group), header.error


def _check(group: Group, fault: Fault) -> None:
    known: dict[str, Event] = {}
    for place, event in enumerate(group.events):
        if event.name in known:
            what = f"the event {event.name} is there twice"
            raise fault(what, "give it another name", "events", place, "name")
        known[event.name] = event
    for place, event in enumerate(group.events):
        for number, name in enumerate(event.after):
            if name not in known:
                do = f"events are {', '.join(known)}"
                raise fault(f"there is no event {name}", do, "events", place, "after", number)
    if found := dag.cycle({one.name: one.after for one in group.events}):
        place = [one.name for one in group.events].index(found[0])
        what = f"events wait for each other: {' after '.join(found)}"
        raise fault(what, "leave out one of these", "events", place, "after")
    for place, event in enumerate(group.events):
        _check_event(event, known, fault, ("events", place))
    for place, row in enumerate(group.rows):
        if row.table.count(".") != 1:
            what = f"{row.table} is no table with its keyspace"
            raise fault(what, "write keyspace.table", "rows", place, "table")


def _check_event(event: Event, known: Mapping[str, Event], fault: Fault, at: Place) -> None:
    parsed = _parsed(event.statement, fault, (*at, "statement"))
    for number, need in enumerate(event.needs):
        where = (*at, "needs", number)
        if need.event not in event.after:
            what = f"it needs data of {need.event}, and does not depend on it"
            raise fault(what, f"add {need.event} to `after`", *where, "event")
        source = known[need.event].statement
        if source is None or not source.lstrip().upper().startswith("SELECT"):
            raise fault(f"{need.event} selects nothing", "name a select", *where, "event")
        if need.as_ in event.values:
            what = f"the parameter {need.as_} has a value, too"
            raise fault(what, "keep one of them", *where, "as")
    given = {*event.values, *(need.as_ for need in event.needs)}
    _check_parameters(parsed.parameters if parsed else frozenset(), given, fault, at)
    if event.expect is not None and (parsed is None or parsed.writes):
        raise fault("only a select finds rows", "leave it out", *at, "expect")
    if isinstance(event.rollback, Compensation):
        if parsed is None or not parsed.writes:
            raise fault("there is nothing to take back", "leave it out", *at, "rollback")
        _check_compensation(event.rollback, given, fault, (*at, "rollback", "statements"))


def _check_compensation(rollback: Compensation, given: set[str], fault: Fault, at: Place) -> None:
    for number, one in enumerate(rollback.statements):
        where = (*at, number, "statement")
        back = _parsed(one.statement, fault, where)
        if back is None or not back.writes:
            raise fault("a select takes nothing back", "leave it out", *where)
        if missing := back.parameters - given - set(one.values):
            what = f"the parameter {min(missing)} has no value"
            raise fault(what, f"add `values: {{{min(missing)}: ...}}`", *where)


def _check_parameters(wanted: frozenset[str], given: set[str], fault: Fault, at: Place) -> None:
    if missing := wanted - given:
        what = f"the parameter {min(missing)} has no value"
        raise fault(what, f"add `values: {{{min(missing)}: ...}}`", *at, "statement")
    if unused := given - wanted:
        what = f"the statement has no parameter {min(unused)}"
        raise fault(what, f"write `:{min(unused)}` where it belongs", *at)


def _parsed(text: str | None, fault: Fault, at: Place) -> Statement | None:
    if text is None:
        return None
    try:
        return statement.parse(text)
    except Refused as error:
        raise fault(error.what, error.do, *at) from None
