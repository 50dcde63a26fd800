"""Event groups as files, and what can be told of them without Cassandra."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from tidemark.errors import DefinitionError, InvalidInput
from tidemark.event_groups.definition import dag, many, result_sql, statement
from tidemark.event_groups.definition.group_hooks import BEGINS, ENDS, with_group_hooks
from tidemark.event_groups.definition.model import (
    Compensation,
    DeclaredRow,
    Event,
    Group,
    Hook,
    Hooks,
    JarLibrary,
    Library,
    Need,
)
from tidemark.event_groups.definition.row_keys import GroupFootprint, Item, RowKey
from tidemark.event_groups.definition.statement import Statement
from tidemark.event_groups.definition.tokens import Refused
from tidemark.user_files.form import describe
from tidemark.user_files.header import Header, utf8_text
from tidemark.user_files.yaml_text import mapping_of

EMPTY = ("the file has no event group", "write `group: its-name`")
Place = tuple[str | int, ...]
"""The path of a value in a definition."""
Fault = Callable[..., DefinitionError]
"""Makes an error of what is wrong, what to do, and the path of the value in the definition."""


@dataclass(frozen=True)
class GroupDefinition:
    """A group whose statements are parsed.

    Attributes:
        group: as its file or the stream has it.
        fault: why it cannot be executed, such as that this version cannot read it; or empty.
    """

    group: Group
    fault: str = ""

    @classmethod
    def stored(cls, name: str, text: str) -> GroupDefinition:
        """Return a group of the stream; without events if this version cannot read it.

        Args:
            name: its id.
            text: the group in JSON, which was checked when it was submitted.
        """
        try:
            group = Group.model_validate_json(text)
            _check_order(group, lambda what, do, *_: DefinitionError(what, where="events", do=do))
            return cls(group)
        except ValidationError as error:
            first = error.errors()[0]
            key = next((part for part in reversed(first["loc"]) if isinstance(part, str)), "")
            what, do = describe(Group, first, key, is_python=False)
            fault = f"{key}: {what}; {do}"
        except DefinitionError as error:
            fault = str(error)
        unreadable = Group.model_construct(group=name, events=())
        return cls(unreadable, f"this version cannot read it: {fault}")

    @cached_property
    def events(self) -> Mapping[str, Event]:
        """Return the events by name, in the order of the file; those of the group's hooks too."""
        return {one.name: one for one in with_group_hooks(self.group)}

    @cached_property
    def graph(self) -> dag.Graph:
        """Return what each event depends on."""
        return {name: one.after for name, one in self.events.items()}

    @cached_property
    def statements(self) -> Mapping[str, Statement]:
        """Return the statements by event; an empty event has none."""
        return {
            one.name: statement.parse(one.statement)
            for one in self.group.events
            if one.statement is not None
        }

    @cached_property
    def refusal(self) -> str:
        """Return why this version does not take a group or a statement; empty if it takes all.

        What was submitted to an earlier version was checked by that version's rules.
        """
        if self.fault:
            return self.fault
        try:
            for name in self.statements:
                self.compensations(name)
        except Refused as error:
            return f"this version does not take a statement: {error.what}; {error.do}"
        return ""

    def has_many(self, event: Event) -> bool:
        """Tell whether an event reads many rows, or writes for each of them."""
        return event.many or (event.each is not None and self.events[event.each].many)

    def compensations(self, name: str) -> list[Statement]:
        """Return the user's statements that take back an event."""
        rollback = self.events[name].rollback
        if not isinstance(rollback, Compensation):
            return []
        return [statement.parse(one.statement) for one in rollback.statements]

    @cached_property
    def rows(self) -> frozenset[RowKey] | None:
        """Return the declared rows; None if there are none."""
        return frozenset(map(_row, self.group.rows)) or None

    @cached_property
    def tables(self) -> Mapping[str, bool]:
        """Return whether it writes each table that it names, by keyspace and name with a dot."""
        found: dict[str, bool] = {}
        for name in self.events:
            for one in self.statements_of(name):
                found[one.name] = found.get(one.name, False) or one.writes
        return found

    def statements_of(self, name: str) -> list[Statement]:
        """Return the statement of an event, and those that take it back."""
        own = [self.statements[name]] if name in self.statements else []
        return [*own, *self.compensations(name)]

    @property
    def loads(self) -> Mapping[str, Library | JarLibrary]:
        """Return the libraries that it loads, by event."""
        return {one.name: one.library for one in self.group.events if one.library is not None}

    @property
    def functions(self) -> Mapping[str, Place]:
        """Return the functions of the JARs that it loads, with their places."""
        return {
            name: ("events", place, "library", "functions", name)
            for place, event in enumerate(self.group.events)
            if isinstance(event.library, JarLibrary)
            for name in event.library.functions
        }

    @cached_property
    def reads(self) -> frozenset[RowKey]:
        """Return the rows that it only reads, as they are declared."""
        return frozenset(map(_row, self.group.reads))

    def footprint_as(self, item: Item, *, reads: bool = True) -> GroupFootprint[Item]:
        """Return the rows by which others may run at the same time.

        None runs at the same time as a group that loads a library, since it would use the old or
        the new version; nor as one that reads rows which it does not name; nor as one that this
        version does not take, whose execution says why.

        Args:
            item: names the group.
            reads: whether it still reads.
        """
        if self.refusal:
            return GroupFootprint(item, len(self.events), None)
        is_alone = bool(self.loads) or (reads and bool(self.undeclared_reads))
        rows = None if is_alone else self.rows
        return GroupFootprint(item, len(self.events), rows, self.reads if reads else frozenset())

    @cached_property
    def undeclared_reads(self) -> Sequence[str]:
        """Return the selects whose conditions tie no columns by which rows are declared."""
        return [
            name
            for name, parsed in self.statements.items()
            if not parsed.writes
            and not any(
                table == parsed.name and parsed.key.keys() >= {column for column, _ in key}
                for table, key in (*(self.rows or ()), *self.reads)
            )
        ]

    def says(self) -> dict[str, str]:
        """Return what each event does, in a few words."""
        return {name: self._says(one) for name, one in self.events.items()}

    def _says(self, event: Event) -> str:
        if event.statement is not None:
            if self.refusal:
                return "statement"
            parsed = self.statements[event.name]
            return f"{parsed.kind} {parsed.name}"
        if event.library is not None:
            return f"load {event.library.name} {event.library.version}"
        return "hooks" if event.hooks != Hooks() else "nothing"


def hooks_of(group: Group) -> Iterator[tuple[str, Hook, Place]]:
    """Yield the hooks of a group and of its events, with their moments and places."""
    owners: list[tuple[Hooks, Place]] = [(group.hooks, ("hooks",))]
    owners += [(one.hooks, ("events", n, "hooks")) for n, one in enumerate(group.events)]
    for hooks, at in owners:
        for moment in ("before", "after"):
            for number, hook in enumerate(getattr(hooks, moment)):
                yield moment, hook, (*at, moment, number)


def declared(group: Group) -> Iterator[tuple[Place, DeclaredRow]]:
    """Yield the rows that a group declares, with their places."""
    for key, rows in (("rows", group.rows), ("reads", group.reads)):
        for number, row in enumerate(rows):
            yield (key, number), row


def within(fault: Fault, outer: Place) -> Fault:
    """Return what makes an error at a place in a group that stands in another one."""

    def error(what: str, do: str, *at: str | int) -> DefinitionError:
        return fault(what, do, *outer, *at)

    return error


def _row(one: DeclaredRow) -> RowKey:
    return one.table, tuple(sorted(one.key.items()))


def load(file: Path) -> tuple[GroupDefinition, Fault]:
    """Read a group and check all that its file can tell.

    Returns:
        the group, and what makes an error at a place in the file.

    Raises:
        InvalidInput: there is no such file.
        DefinitionError: the group cannot be used; the message names file, line, column and remedy.
    """
    if not file.is_file():
        raise InvalidInput("there is no such file", where=str(file), do="name a group in YAML")
    return parse(utf8_text(file), file)


def parse(text: str, source: Path) -> tuple[GroupDefinition, Fault]:
    """Read a group as `load` does; `source` is where the text is from, for errors."""
    return checked(Header(source, mapping_of(source, text, EMPTY)))


def checked(header: Header) -> tuple[GroupDefinition, Fault]:
    """Check a group, as `load` does."""
    group = header.checked(Group)
    _check(group, header.error)
    return GroupDefinition(group), header.error


def _check(group: Group, fault: Fault) -> None:
    known = _check_order(group, fault)
    for number, event in enumerate(group.events):
        _check_event(event, known, fault, ("events", number))
    for place, row in declared(group):
        if row.table.count(".") != 1:
            what = f"{row.table} is no table with its keyspace"
            raise fault(what, "write keyspace.table", *place, "table")
    if group.reads and not group.rows:
        raise fault("it declares what it reads, and no rows", "declare all that it writes", "reads")
    _check_libraries(group, known, fault)
    for _, hook, at in hooks_of(group):
        if hook.submit is not None:
            _check(hook.submit, within(fault, (*at, "submit")))


def _check_order(group: Group, fault: Fault) -> dict[str, Event]:
    """Return the events by name; refuse names that no event has, and events that wait in a ring."""
    known: dict[str, Event] = {}
    for place, event in enumerate(group.events):
        what = ""
        if event.name in known:
            what = f"the event {event.name} is there twice"
        elif event.name in (BEGINS, ENDS):
            what = f"{event.name} is the event of the group's own hooks"
        if what:
            raise fault(what, "give it another name", "events", place, "name")
        known[event.name] = event
    for place, event in enumerate(group.events):
        for number, name in enumerate(event.after):
            if name not in known:
                do = f"events are {', '.join(known)}"
                raise fault(f"there is no event {name}", do, "events", place, "after", number)
    if found := dag.cycle({one.name: one.after for one in group.events}):
        first = [*known].index(found[0])
        what = f"events wait for each other: {' after '.join(found)}"
        raise fault(what, "leave out one of these", "events", first, "after")
    return known


def _check_event(event: Event, known: Mapping[str, Event], fault: Fault, at: Place) -> None:
    parsed = _parsed(event.statement, fault, (*at, "statement"))
    if event.each is not None:
        _check_source(event.each, event, known, fault, (*at, "each"))
    for number, need in enumerate(event.needs):
        _check_need(need, event, known, fault, (*at, "needs", number))
    given = {*event.values, *(need.as_ for need in event.needs)}
    _check_parameters(parsed.parameters if parsed else frozenset(), given, fault, at)
    if event.library is not None and (parsed is not None or event.rollback != "restore"):
        raise fault("it loads a library", "leave out `statement` and `rollback`", *at, "library")
    writes = parsed is not None and parsed.writes
    if event.expect is not None and (parsed is None or writes):
        raise fault("only a select finds rows", "leave it out", *at, "expect")
    if event.each is not None and not writes:
        raise fault("only writes are sent for each row", "leave it out", *at, "each")
    if found := many.refusal(event, parsed, known):
        what, do, place = found
        raise fault(what, do, *at, *place)
    if isinstance(event.rollback, Compensation):
        if not writes and not (event.rollback.call or event.rollback.ask):
            raise fault("there is nothing to take back", "leave it out", *at, "rollback")
        _check_compensation(event.rollback, given, fault, (*at, "rollback", "statements"))


def _check_libraries(group: Group, known: Mapping[str, Event], fault: Fault) -> None:
    """Let no event call a function beside the load of a library: it might use either version."""
    graph = {one.name: one.after for one in group.events}
    loaded: set[str] = set()
    for place, one in enumerate(group.events):
        if one.library is None:
            continue
        if one.library.key in loaded:
            raise fault(f"{one.library.name} is loaded twice", "leave one out", "events", place)
        loaded.add(one.library.key)
        is_jar = isinstance(one.library, JarLibrary)
        behind = dag.dependents(graph, [one.name])
        for number, event in enumerate(group.events):
            if one is event or event.name in behind:
                continue
            uses = _is_of_many(event, known) if is_jar else _calls(event)
            if uses:
                what = f"{event.name} calls a function while {one.name} may load a library"
                raise fault(what, f"add {one.name} to `after`", "events", number)


def _calls(event: Event) -> bool:
    """Tell whether an event calls functions."""
    called = [one.call for one in event.needs]
    called += [one.call for one in (*event.hooks.before, *event.hooks.after)]
    if isinstance(event.rollback, Compensation):
        called.append(event.rollback.call)
    return any(called)


def _is_of_many(event: Event, known: Mapping[str, Event]) -> bool:
    """Tell whether Spark evaluates SQL of an event, in which a JAR's functions may be."""
    has_sql = any(one.sql is not None for one in event.needs)
    return has_sql and event.each is not None and known[event.each].many


def _check_need(
    need: Need, event: Event, known: Mapping[str, Event], fault: Fault, at: Place
) -> None:
    ways = [name for name in ("take", "sql", "call", "url") if getattr(need, name) is not None]
    if need.event is not None:
        _check_source(need.event, event, known, fault, (*at, "event"))
        if len(ways) > 1 or need.url is not None:
            raise fault("its value is made in several ways", "keep take, sql or call", *at)
    elif ways not in (["call"], ["url"]):
        raise fault("nothing says where its value is from", "name an event, call or url", *at)
    # Of many rows Spark evaluates it, see `many_rows.check`.
    is_few = need.event is None or not known[need.event].many
    if need.sql is not None and is_few and (refusal := result_sql.refusal(need.sql)):
        raise fault(f"not an expression: {refusal}", "correct it", *at, "sql")
    if need.as_ in event.values:
        raise fault(f"the parameter {need.as_} has a value, too", "keep one of them", *at, "as")


def _check_source(
    name: str, event: Event, known: Mapping[str, Event], fault: Fault, at: Place
) -> None:
    """Check that an event has a result that another one may use."""
    if name not in event.after:
        what = f"it needs data of {name}, and does not depend on it"
        raise fault(what, f"add {name} to `after`", *at)
    source = known[name].statement
    if source is None or not source.lstrip().upper().startswith("SELECT"):
        raise fault(f"{name} selects nothing", "name a select", *at)


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
