"""Event groups in Python: events are handles, so that what depends on what needs no names.

::

    group = EventGroup("correct-order-17", rows=[row("shop.orders", id=17)])
    read = group.event(
        "read", "SELECT total FROM shop.orders WHERE id = :id", values={"id": 17}, expect="one"
    )
    group.event(
        "keep",
        "INSERT INTO shop.totals (customer, old_total) VALUES ('ann', :total)",
        needs=[read.column("total")],
    )
    group.save(Path("correct-order-17.yaml"))
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import yaml

from tidemark.errors import DefinitionError
from tidemark.event_groups.definition.file import EMPTY, Definition, checked
from tidemark.headed_files.header import Header, Place
from tidemark.headed_files.yaml_text import mapping_of

Values = Mapping[str, object]
"""Values of parameters: texts, numbers, dates, UUIDs, bytes, and collections of them."""
Rollback = str | Sequence[tuple[str, Values]] | None
"""`restore`, `none`, a function `module:function`, or statements."""


@dataclass(frozen=True)
class Need:
    """A parameter from the result of an event, or from outside if there is no event."""

    event: Event | None
    keys: Mapping[str, object]


@dataclass(frozen=True, eq=False)
class Event:
    """An event of a group. Other events can wait for it or use its result."""

    group: EventGroup
    name: str

    def column(self, name: str, as_: str | None = None) -> Need:
        """Return a column of the result as the parameter `as_`; the default is its own name."""
        return Need(
            self, {"as": as_ or name, **({"take": name} if as_ not in (None, name) else {})}
        )

    def sql(self, expression: str, as_: str) -> Need:
        """Return the value of an expression over the result, as a parameter."""
        return Need(self, {"as": as_, "sql": expression})

    def call(self, function: str, as_: str, timeout: int | None = None) -> Need:
        """Return the value of `module:function` for the rows of the result, as a parameter."""
        return Need(self, _given({"as": as_, "call": function, "timeout": timeout}))


def called(function: str, as_: str, timeout: int | None = None) -> Need:
    """Return the value of a function without arguments, as a parameter."""
    return Need(None, _given({"as": as_, "call": function, "timeout": timeout}))


def asked(url: str, as_: str, timeout: int | None = None) -> Need:
    """Return the response of an HTTP address, as a parameter."""
    return Need(None, _given({"as": as_, "url": url, "timeout": timeout}))


@dataclass(frozen=True)
class Jar:
    """A JAR for Spark: `group:artifact`, its version, and the class of each of its functions."""

    coordinate: str
    version: str
    functions: Mapping[str, str]


def row(table: str, /, **key: object) -> Mapping[str, object]:
    """Return a row for the declaration of a group: `keyspace.table`, and its (partition) key."""
    return {"table": table, "key": key}


class EventGroup:
    """An event group, to which you add events.

    `definition` and `save` check the complete group. docs/event-groups.md explains the arguments.
    """

    def __init__(
        self,
        name: str,
        *,
        rows: Iterable[Mapping[str, object]] = (),
        reads: Iterable[Mapping[str, object]] = (),
        policy: Literal["all-for-one", "one-for-one"] | None = None,
        hooks: Mapping[str, object] | None = None,
    ) -> None:
        """Create a group without events; `hooks` are written as in a file.

        Raises:
            DefinitionError: the key of a row has a value without a text form in Cassandra.
        """
        self._header: dict[str, Any] = {"group": name}
        if policy is not None:
            self._header["policy"] = str(policy)
        for key, declared in (("rows", rows), ("reads", reads)):
            if plain := [_plain(one, f"{key} of group {name}") for one in declared]:
                self._header[key] = plain
        if hooks:
            self._header["hooks"] = _plain(hooks, f"hooks of group {name}")
        self._events: list[dict[str, Any]] = []

    def event(
        self,
        name: str,
        statement: str | None = None,
        *,
        values: Values | None = None,
        after: Iterable[Event] = (),
        each: Event | None = None,
        needs: Iterable[Need] = (),
        many: bool = False,
        expect: Literal["one", "some", "none"] | None = None,
        rollback: Rollback = None,
        timeout: int | None = None,
        library: tuple[str, str] | Jar | None = None,
        hooks: Mapping[str, object] | None = None,
    ) -> Event:
        """Add an event, which also depends on the events in its `needs`.

        Args:
            name: unique in the group.
            statement: CQL with named parameters.
            values: the values of the parameters.
            after: events of this group that must have succeeded before.
            each: a select; the statement is sent for each of its rows.
            needs: parameters from results, or from outside.
            many: whether a select finds many rows, so that Spark reads them.
            expect: the number of rows that a select must find.
            rollback: `restore`, `none`, a function `module:function`, or a list of statements,
                each with further parameters.
            timeout: seconds for one attempt.
            library: instead of a statement, the name and version of a library to load, or a JAR.
            hooks: as in a file.

        Raises:
            DefinitionError: the event depends on an event of another group, or has a value without
                a text form in Cassandra.
        """
        where = _event_of(name, self._header["group"])
        needed = list(needs)
        before = [*after, *(one.event for one in needed if one.event is not None)]
        before += [] if each is None else [each]
        for one in before:
            if one.group is not self:
                what = f"the event {one.name} is of another group"
                raise DefinitionError(what, where=where, do="name events of this group")
        own = {
            "name": name,
            "statement": statement,
            "values": _plain(values or {}, where),
            "after": list(dict.fromkeys(one.name for one in before)),
            "each": None if each is None else each.name,
            "needs": [_need(one, where) for one in needed],
            "many": "true" if many else None,
            "expect": expect,
            "rollback": _rollback(rollback, where),
            "timeout": timeout,
            "library": _library(library),
            "hooks": _plain(hooks or {}, where),
        }
        self._events.append(
            {key: value for key, value in own.items() if value not in (None, {}, [])}
        )
        return Event(self, name)

    def definition(self) -> Definition:
        """Check the group without Cassandra, and return it.

        Raises:
            DefinitionError: the group cannot be used; the message names the event and the remedy.
        """
        try:
            root = mapping_of(Path(), self._text(), EMPTY)
        except DefinitionError as error:
            where = f"group {self._header['group']}"
            raise DefinitionError(error.what, where=where, do=error.do) from None
        definition, _ = checked(_Built(Path(), root))
        return definition

    def save(self, file: Path) -> None:
        """Write the group into a file for `run_event_groups.py submit`.

        Raises:
            DefinitionError: as `definition`; nothing is written then.
        """
        self.definition()
        file.write_text(self._text(), encoding="utf-8")

    def keys(self) -> dict[str, Any]:
        """Return the group as a file contains it."""
        return {**self._header, "events": self._events}

    def _text(self) -> str:
        return yaml.dump(
            self.keys(), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100
        )


class _Dumper(yaml.SafeDumper):
    """Writes texts so that they are read as they were."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # In other styles they end lines, and lines are folded.
        style = '"' if {"\x85", "\u2028", "\u2029"}.intersection(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)


class _Built(Header):
    """A group that no file holds: errors name the event."""

    def _where(self, path: Sequence[str | int], place: Place) -> str:
        group = self.node("group").value
        match path:
            case ["events", int(), *_]:
                return _event_of(str(self.node(*path[:2], "name").value), str(group))
            case ["rows", int(number), *_]:
                return f"row {number + 1} of group {group}"
        return f"group {group}"


def _event_of(name: str, group: str) -> str:
    return f"event {name} of group {group}"


def _given(keys: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in keys.items() if value is not None}


def _library(library: tuple[str, str] | Jar | None) -> dict[str, object] | None:
    if isinstance(library, Jar):
        return {
            "jar": library.coordinate,
            "version": library.version,
            "functions": dict(library.functions),
        }
    return None if library is None else {"name": library[0], "version": library[1]}


def _need(need: Need, where: str) -> dict[str, object]:
    event = {} if need.event is None else {"event": need.event.name}
    return {**event, **_plain(need.keys, where)}


def _rollback(rollback: Rollback, where: str) -> object:
    if rollback is None or rollback in ("restore", "none"):
        return rollback
    if isinstance(rollback, str):
        return {"call": rollback}
    statements = [
        {"statement": statement, **({"values": _plain(values, where)} if values else {})}
        for statement, values in rollback
    ]
    return {"statements": statements}


def _plain(value: object, where: str) -> Any:
    """Return a value as texts, lists and mappings, as a file has it and Cassandra takes it.

    Raises:
        DefinitionError: there is no such text.
    """
    match value:
        case None:
            return None
        case EventGroup():
            return value.keys()
        case Mapping():
            return {_text(key, where): _plain(item, where) for key, item in value.items()}
        case AbstractSet():
            return sorted((_plain(item, where) for item in value), key=str)
        case list() | tuple():
            return [_plain(item, where) for item in value]
    return _text(value, where)


def _text(value: object, where: str) -> str:
    match value:
        case str() | Decimal() | UUID():
            return str(value)
        case bool() | int() | float():
            return json.dumps(value)
        case datetime(tzinfo=None):
            raise DefinitionError(f"{value!r} has no time zone", where=where, do="give it one")
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="milliseconds")
        case date() | time():
            return value.isoformat()
        case bytes():
            return f"0x{value.hex()}"
    do = "write a text, a number, a time, a UUID, bytes, or a collection of them"
    raise DefinitionError(f"there is no value for {value!r:.80}", where=where, do=do)
