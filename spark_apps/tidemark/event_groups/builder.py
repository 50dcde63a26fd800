"""Event groups in Python: events are handles, so that dependencies need no names.

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
from tidemark.event_groups.definition.file import EMPTY, GroupDefinition, checked
from tidemark.user_files.header import Header, Place
from tidemark.user_files.yaml_text import mapping_of

Values = Mapping[str, object]
"""Values of parameters: texts, numbers, dates, UUIDs, bytes, and collections of them."""
Rollback = str | Sequence[tuple[str, Values]] | None
"""`restore`, `none`, a function `module:function`, or statements."""


@dataclass(frozen=True)
class ParameterHandle:
    """A parameter from the result of an event or, without an event, from outside."""

    event: EventHandle | None
    keys: Mapping[str, object]


@dataclass(frozen=True, eq=False)
class EventHandle:
    """An event of a group, which others can depend on or take data from."""

    group: EventGroup
    name: str

    def column(self, name: str, as_: str | None = None) -> ParameterHandle:
        """Return a column of the result as a parameter, named `as_` or like the column."""
        return ParameterHandle(
            self, {"as": as_ or name, **({"take": name} if as_ not in (None, name) else {})}
        )

    def sql(self, expression: str, as_: str) -> ParameterHandle:
        """Return an SQL expression over the result as a parameter."""
        return ParameterHandle(self, {"as": as_, "sql": expression})

    def call(self, function: str, as_: str, timeout: int | None = None) -> ParameterHandle:
        """Return the value that `module:function` makes of the result's rows as a parameter."""
        return ParameterHandle(self, _non_null({"as": as_, "call": function, "timeout": timeout}))


def from_function(function: str, as_: str, timeout: int | None = None) -> ParameterHandle:
    """Return the value of a function without a result as a parameter."""
    return ParameterHandle(None, _non_null({"as": as_, "call": function, "timeout": timeout}))


def from_url(url: str, as_: str, timeout: int | None = None) -> ParameterHandle:
    """Return the answer of an address as a parameter."""
    return ParameterHandle(None, _non_null({"as": as_, "url": url, "timeout": timeout}))


@dataclass(frozen=True)
class Jar:
    """A JAR for Spark: `group:artifact`, its version, and the class of each of its functions."""

    coordinate: str
    version: str
    functions: Mapping[str, str]


def row(table: str, /, **key: object) -> Mapping[str, object]:
    """Return a row that a group declares: `keyspace.table`, and its primary or partition key."""
    return {"table": table, "key": key}


class EventGroup:
    """An event group that is built event by event.

    `definition` and `save` check the complete group; docs/event-groups.md explains the arguments.
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
        """Create a group without events; `hooks` as in a file, with an `EventGroup` for `submit`.

        Raises:
            DefinitionError: the key of a row has a value that has no text in Cassandra.
        """
        self._header: dict[str, Any] = {"group": name}
        if policy is not None:
            self._header["policy"] = str(policy)
        for key, declared in (("rows", rows), ("reads", reads)):
            if plain := [_plain(row, f"{key} of group {name}") for row in declared]:
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
        after: Iterable[EventHandle] = (),
        each: EventHandle | None = None,
        needs: Iterable[ParameterHandle] = (),
        many: bool = False,
        expect: Literal["one", "some", "none"] | None = None,
        rollback: Rollback = None,
        timeout: int | None = None,
        library: tuple[str, str] | Jar | None = None,
        hooks: Mapping[str, object] | None = None,
    ) -> EventHandle:
        """Add an event, which also depends on the events of its `needs`.

        Args:
            name: unique in the group.
            statement: CQL with named parameters.
            values: the values of the parameters.
            after: events of this group that must have succeeded before.
            each: the select for each of whose rows the statement is sent.
            needs: parameters from results, or from outside.
            many: whether a select finds many rows, and Spark reads them.
            expect: the number of rows that a select must find.
            rollback: `restore`, `none`, a function `module:function`, or statements, each with its
                further parameters.
            timeout: seconds for one attempt.
            library: the name and version of a library, or a JAR, to load instead of a statement.
            hooks: as in a file.

        Raises:
            DefinitionError: it depends on an event of another group, or has a value that has no
                text in Cassandra.
        """
        where = _event_of(name, self._header["group"])
        all_needs = list(needs)
        predecessors = [*after, *(need.event for need in all_needs if need.event is not None)]
        predecessors += [] if each is None else [each]
        for event in predecessors:
            if event.group is not self:
                what = f"the event {event.name} is of another group"
                raise DefinitionError(what, where=where, do="name events of this group")
        keys = {
            "name": name,
            "statement": statement,
            "values": _plain(values or {}, where),
            "after": list(dict.fromkeys(event.name for event in predecessors)),
            "each": None if each is None else each.name,
            "needs": [_need(need, where) for need in all_needs],
            "many": "true" if many else None,
            "expect": expect,
            "rollback": _rollback(rollback, where),
            "timeout": timeout,
            "library": _library(library),
            "hooks": _plain(hooks or {}, where),
        }
        self._events.append(
            {key: value for key, value in keys.items() if value not in (None, {}, [])}
        )
        return EventHandle(self, name)

    def definition(self) -> GroupDefinition:
        """Return the group, after all checks that need no Cassandra.

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
        """Write the group to a file for `run_event_groups.py submit`.

        Raises:
            DefinitionError: as `definition`; nothing is written then.
        """
        self.definition()
        file.write_text(self._text(), encoding="utf-8")

    def keys(self) -> dict[str, Any]:
        """Return the group as the mapping that a file contains."""
        return {**self._header, "events": self._events}

    def _text(self) -> str:
        return yaml.dump(
            self.keys(), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100
        )


class _Dumper(yaml.SafeDumper):
    """Writes texts so that they are read back unchanged."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # In other styles these characters end lines, and lines are folded.
        style = '"' if {"\x85", "\u2028", "\u2029"}.intersection(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)


class _Built(Header):
    """A group without a file: errors name the event."""

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


def _non_null(keys: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in keys.items() if value is not None}


def _library(library: tuple[str, str] | Jar | None) -> dict[str, object] | None:
    if isinstance(library, Jar):
        return {
            "jar": library.coordinate,
            "version": library.version,
            "functions": dict(library.functions),
        }
    return None if library is None else {"name": library[0], "version": library[1]}


def _need(need: ParameterHandle, where: str) -> dict[str, object]:
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
    """Return a value as texts, lists and mappings, as in a file.

    Raises:
        DefinitionError: a value has no text in Cassandra.
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
