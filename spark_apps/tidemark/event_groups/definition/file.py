"""Event groups as files, and the checks that need no Cassandra."""

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
"""Makes an error: what is wrong, what to do, and the path of the value in the definition."""


@dataclass(frozen=True)
class GroupDefinition:
    """A group whose statements are parsed.

    Attributes:
        group: as written in the file or stored in the stream.
        fault: why it cannot be executed, such as that this version cannot read it; or empty.
    """

    group: Group
    fault: str = ""

    @classmethod
    def stored(cls, name: str, text: str) -> GroupDefinition:
        """Parse the JSON of a group in the stream, which was checked when it was submitted.

        If this version cannot read it, the result has a fault and no events.
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
        """Return the events by name, in the order of the file, with those of the group's hooks."""
        return {event.name: event for event in with_group_hooks(self.group)}

    @cached_property
    def graph(self) -> dag.Graph:
        """Return the names of the events that each event depends on."""
        return {name: event.after for name, event in self.events.items()}

    @cached_property
    def statements(self) -> Mapping[str, Statement]:
        """Return the statements by event; empty events have none."""
        return {
            event.name: statement.parse(event.statement)
            for event in self.group.events
            if event.statement is not None
        }

    @cached_property
    def refusal(self) -> str:
        """Return why this version rejects the group or a statement; empty if it accepts all.

        A group that an earlier version accepted was checked by that version's rules.
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
        """Return the user's statements that undo an event."""
        rollback = self.events[name].rollback
        if not isinstance(rollback, Compensation):
            return []
        return [statement.parse(compensating.statement) for compensating in rollback.statements]

    @cached_property
    def rows(self) -> frozenset[RowKey] | None:
        """Return the declared rows; None if there are none."""
        return frozenset(map(_row, self.group.rows)) or None

    @cached_property
    def tables(self) -> Mapping[str, bool]:
        """Return the tables that the group names, as `keyspace.table`, and which it writes."""
        written: dict[str, bool] = {}
        for name in self.events:
            for parsed in self.statements_of(name):
                written[parsed.name] = written.get(parsed.name, False) or parsed.writes
        return written

    def statements_of(self, name: str) -> list[Statement]:
        """Return the statement of an event, and those that undo it."""
        statements = [self.statements[name]] if name in self.statements else []
        return [*statements, *self.compensations(name)]

    @property
    def loads(self) -> Mapping[str, Library | JarLibrary]:
        """Return the libraries that the group loads, by event."""
        return {
            event.name: event.library for event in self.group.events if event.library is not None
        }

    @property
    def functions(self) -> Mapping[str, Place]:
        """Return the functions of the JARs that the group loads, with their paths."""
        return {
            name: ("events", index, "library", "functions", name)
            for index, event in enumerate(self.group.events)
            if isinstance(event.library, JarLibrary)
            for name in event.library.functions
        }

    @cached_property
    def reads(self) -> frozenset[RowKey]:
        """Return the declared rows that the group only reads."""
        return frozenset(map(_row, self.group.reads))

    def footprint_as(self, item: Item, *, reads: bool = True) -> GroupFootprint[Item]:
        """Return the rows that decide which groups may run at the same time.

        A group runs alone if it loads a library (others would use the old or the new version), if
        it reads rows that it does not declare, or if this version rejects it.

        Args:
            item: identifies the group.
            reads: whether the group has yet to read.
        """
        if self.refusal:
            return GroupFootprint(item, len(self.events), None)
        is_alone = bool(self.loads) or (reads and bool(self.undeclared_reads))
        rows = None if is_alone else self.rows
        return GroupFootprint(item, len(self.events), rows, self.reads if reads else frozenset())

    @cached_property
    def undeclared_reads(self) -> Sequence[str]:
        """Return the selects whose conditions do not fix the key columns of a declared row."""
        return [
            name
            for name, parsed in self.statements.items()
            if not parsed.writes
            and not any(
                table == parsed.name and parsed.key.keys() >= {column for column, _ in key}
                for table, key in (*(self.rows or ()), *self.reads)
            )
        ]

    def summaries(self) -> dict[str, str]:
        """Return what each event does, in a few words."""
        return {name: self._summary(event) for name, event in self.events.items()}

    def _summary(self, event: Event) -> str:
        if event.statement is not None:
            if self.refusal:
                return "statement"
            parsed = self.statements[event.name]
            return f"{parsed.kind} {parsed.name}"
        if event.library is not None:
            return f"load {event.library.name} {event.library.version}"
        return "hooks" if event.hooks != Hooks() else "nothing"


def hooks_of(group: Group) -> Iterator[tuple[str, Hook, Place]]:
    """Yield the hooks of a group and of its events, with their moments and paths."""
    owners: list[tuple[Hooks, Place]] = [(group.hooks, ("hooks",))]
    owners += [(event.hooks, ("events", n, "hooks")) for n, event in enumerate(group.events)]
    for hooks, at in owners:
        for moment in ("before", "after"):
            for number, hook in enumerate(getattr(hooks, moment)):
                yield moment, hook, (*at, moment, number)


def declared(group: Group) -> Iterator[tuple[Place, DeclaredRow]]:
    """Yield the rows that a group declares, with their paths."""
    for key, rows in (("rows", group.rows), ("reads", group.reads)):
        for number, row in enumerate(rows):
            yield (key, number), row


def within(fault: Fault, outer: Place) -> Fault:
    """Return a fault for a group that is nested at `outer` in another group."""

    def error(what: str, do: str, *at: str | int) -> DefinitionError:
        return fault(what, do, *outer, *at)

    return error


def _row(row: DeclaredRow) -> RowKey:
    return row.table, tuple(sorted(row.key.items()))


def load(file: Path) -> tuple[GroupDefinition, Fault]:
    """Read a group and check everything that needs no Cassandra.

    Returns:
        the group, and the function that makes errors with a place in the file.

    Raises:
        InvalidInput: there is no such file.
        DefinitionError: the group cannot be used; the message names file, line, column and remedy.
    """
    if not file.is_file():
        raise InvalidInput("there is no such file", where=str(file), do="name a group in YAML")
    return parse(utf8_text(file), file)


def parse(text: str, source: Path) -> tuple[GroupDefinition, Fault]:
    """Parse and check a group as `load` does; `source` is named in errors."""
    return checked(Header(source, mapping_of(source, text, EMPTY)))


def checked(header: Header) -> tuple[GroupDefinition, Fault]:
    """Check a group, as `load` does."""
    group = header.checked(Group)
    _check(group, header.error)
    return GroupDefinition(group), header.error


def _check(group: Group, fault: Fault) -> None:
    events = _check_order(group, fault)
    for number, event in enumerate(group.events):
        _check_event(event, events, fault, ("events", number))
    for path, row in declared(group):
        if row.table.count(".") != 1:
            what = f"{row.table} is no table with its keyspace"
            raise fault(what, "write keyspace.table", *path, "table")
    if group.reads and not group.rows:
        raise fault("it declares what it reads, and no rows", "declare all that it writes", "reads")
    _check_libraries(group, events, fault)
    for _, hook, at in hooks_of(group):
        if hook.submit is not None:
            _check(hook.submit, within(fault, (*at, "submit")))


def _check_order(group: Group, fault: Fault) -> dict[str, Event]:
    """Return the events by name; reject duplicate and unknown names, and cycles."""
    events: dict[str, Event] = {}
    for index, event in enumerate(group.events):
        what = ""
        if event.name in events:
            what = f"the event {event.name} is there twice"
        elif event.name in (BEGINS, ENDS):
            what = f"{event.name} is the event of the group's own hooks"
        if what:
            raise fault(what, "give it another name", "events", index, "name")
        events[event.name] = event
    for index, event in enumerate(group.events):
        for number, name in enumerate(event.after):
            if name not in events:
                do = f"events are {', '.join(events)}"
                raise fault(f"there is no event {name}", do, "events", index, "after", number)
    if cycle := dag.cycle({event.name: event.after for event in group.events}):
        first = [*events].index(cycle[0])
        what = f"events wait for each other: {' after '.join(cycle)}"
        raise fault(what, "leave out one of these", "events", first, "after")
    return events


def _check_event(event: Event, events: Mapping[str, Event], fault: Fault, at: Place) -> None:
    parsed = _parsed(event.statement, fault, (*at, "statement"))
    if event.each is not None:
        _check_source(event.each, event, events, fault, (*at, "each"))
    for number, need in enumerate(event.needs):
        _check_need(need, event, events, fault, (*at, "needs", number))
    given = {*event.values, *(need.as_ for need in event.needs)}
    _check_parameters(parsed.parameters if parsed else frozenset(), given, fault, at)
    if event.library is not None and (parsed is not None or event.rollback != "restore"):
        raise fault("it loads a library", "leave out `statement` and `rollback`", *at, "library")
    writes = parsed is not None and parsed.writes
    if event.expect is not None and (parsed is None or writes):
        raise fault("only a select finds rows", "leave it out", *at, "expect")
    if event.each is not None and not writes:
        raise fault("only writes are sent for each row", "leave it out", *at, "each")
    if refused := many.refusal(event, parsed, events):
        what, do, inner_path = refused
        raise fault(what, do, *at, *inner_path)
    if isinstance(event.rollback, Compensation):
        if not writes and not (event.rollback.call or event.rollback.ask):
            raise fault("there is nothing to take back", "leave it out", *at, "rollback")
        _check_compensation(event.rollback, given, fault, (*at, "rollback", "statements"))


def _check_libraries(group: Group, events: Mapping[str, Event], fault: Fault) -> None:
    """Forbid function calls while a library may be loading: they might use either version."""
    graph = {event.name: event.after for event in group.events}
    loaded: set[str] = set()
    for index, loading in enumerate(group.events):
        if loading.library is None:
            continue
        if loading.library.key in loaded:
            raise fault(f"{loading.library.name} is loaded twice", "leave one out", "events", index)
        loaded.add(loading.library.key)
        is_jar = isinstance(loading.library, JarLibrary)
        later = dag.dependents(graph, [loading.name])
        for number, event in enumerate(group.events):
            if loading is event or event.name in later:
                continue
            uses = _is_of_many(event, events) if is_jar else _calls(event)
            if uses:
                what = f"{event.name} calls a function while {loading.name} may load a library"
                raise fault(what, f"add {loading.name} to `after`", "events", number)


def _calls(event: Event) -> bool:
    """Tell whether an event calls functions."""
    functions = [need.call for need in event.needs]
    functions += [hook.call for hook in (*event.hooks.before, *event.hooks.after)]
    if isinstance(event.rollback, Compensation):
        functions.append(event.rollback.call)
    return any(functions)


def _is_of_many(event: Event, events: Mapping[str, Event]) -> bool:
    """Tell whether Spark evaluates SQL of the event, which may call functions of a JAR."""
    has_sql = any(need.sql is not None for need in event.needs)
    return has_sql and event.each is not None and events[event.each].many


def _check_need(
    need: Need, event: Event, events: Mapping[str, Event], fault: Fault, at: Place
) -> None:
    ways = [name for name in ("take", "sql", "call", "url") if getattr(need, name) is not None]
    if need.event is not None:
        _check_source(need.event, event, events, fault, (*at, "event"))
        if len(ways) > 1 or need.url is not None:
            raise fault("its value is made in several ways", "keep take, sql or call", *at)
    elif ways not in (["call"], ["url"]):
        raise fault("nothing says where its value is from", "name an event, call or url", *at)
    # An expression over many rows is evaluated by Spark, see `spark_engine.check`.
    is_few = need.event is None or not events[need.event].many
    if need.sql is not None and is_few and (refusal := result_sql.refusal(need.sql)):
        raise fault(f"not an expression: {refusal}", "correct it", *at, "sql")
    if need.as_ in event.values:
        raise fault(f"the parameter {need.as_} has a value, too", "keep one of them", *at, "as")


def _check_source(
    name: str, event: Event, events: Mapping[str, Event], fault: Fault, at: Place
) -> None:
    """Check that `name` is an event whose result `event` may use."""
    if name not in event.after:
        what = f"it needs data of {name}, and does not depend on it"
        raise fault(what, f"add {name} to `after`", *at)
    source = events[name].statement
    if source is None or not source.lstrip().upper().startswith("SELECT"):
        raise fault(f"{name} selects nothing", "name a select", *at)


def _check_compensation(rollback: Compensation, given: set[str], fault: Fault, at: Place) -> None:
    for number, compensating in enumerate(rollback.statements):
        where = (*at, number, "statement")
        parsed = _parsed(compensating.statement, fault, where)
        if parsed is None or not parsed.writes:
            raise fault("a select takes nothing back", "leave it out", *where)
        if missing := parsed.parameters - given - set(compensating.values):
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
