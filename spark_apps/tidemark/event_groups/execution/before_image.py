"""Rows as they were before a statement, and how they are put back.

Write times say whose a value is. What a group has written has one of its own write times; whatever
has another was written by somebody else since, and stays. A value that is put back is written just
behind the group's own, so that it loses against whatever comes later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemark import clock
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import identifier
from tidemark.event_groups.definition.statement import Kind, Statement, key_cql
from tidemark.event_groups.definition.tables import Table, touched
from tidemark.event_groups.execution.failure import EventFailed
from tidemark.event_groups.execution.statements import Parameters, attempted, bound
from tidemark.event_groups.stream.states import Image

MAX_ROWS = 1000
"""The most rows that one delete may take if they are to be restored."""
_TIMEOUT_S = 30


def read(
    control: Control, statement: Statement, table: Table, parameters: Parameters, number: int
) -> list[Image]:
    """Read the rows that a statement is about to write; `number` is that of its parameters.

    Raises:
        EventFailed: there are too many, or Cassandra does not answer.
    """
    is_delete = statement.kind is Kind.DELETE
    where = statement.where if is_delete else key_cql(statement, table.key)
    names = touched(statement, table)
    cql = (
        f"SELECT {_selected(table.key, names)} FROM {statement.quoted} WHERE {where}"
        f" LIMIT {MAX_ROWS + 1}"
    )
    rows = attempted(control, cql, bound_in(where, statement, parameters), _TIMEOUT_S)
    if len(rows) > MAX_ROWS:
        raise EventFailed(
            f"it deletes more than {MAX_ROWS:,} rows of {statement.name}, too many to restore"
        )
    if not rows and not is_delete:
        return [Image(number, False, {}, {})]
    now_ms = clock.now_micros() // 1000
    return [
        Image(
            number,
            True,
            {name: row[f"k{place}"] for place, name in enumerate(table.key)} if is_delete else {},
            {name: _cell(row, place, now_ms) for place, name in enumerate(names)},
        )
        for row in rows
    ]


def named_in(where: str, statement: Statement) -> frozenset[str]:
    """Return the parameters of a statement that conditions have."""
    return frozenset(name for name in statement.parameters if f":{name})" in where)


def bound_in(where: str, statement: Statement, parameters: Parameters) -> dict[str, object]:
    """Return the parameters of a statement that conditions have, as they are bound."""
    return bound(parameters, named_in(where, statement))


def _selected(key: Sequence[str], names: Sequence[str]) -> str:
    parts = [f"toJson({identifier(name)}) AS k{place}" for place, name in enumerate(key)]
    for place, name in enumerate(names):
        column = identifier(name)
        parts += [
            f"toJson({column}) AS c{place}",
            f"writetime({column}) AS w{place}",
            f"ttl({column}) AS t{place}",
        ]
    return ", ".join(parts)


def _cell(row: Row, place: int, now_ms: int) -> tuple[str, int | None, int | None]:
    ttl = row[f"t{place}"]
    expires = None if ttl is None else now_ms + ttl * 1000
    return row[f"c{place}"], row[f"w{place}"], expires


def newest_write_time(images: Sequence[Image]) -> int:
    """Return the newest write time in rows, in microseconds; 0 if there is none."""
    times = [time for image in images for _, time, _ in image.cells.values() if time is not None]
    return max(times, default=0)


@dataclass(frozen=True)
class Restoring:
    """The way back of one event.

    Attributes:
        control: the session.
        statement: of the event.
        table: its table.
        parameters: of the event.
        at: the write time of what is put back.
        own: all write times of the group, those of what was put back included.
        ensure_locked: called before each write.
    """

    control: Control
    statement: Statement
    table: Table
    parameters: Parameters
    at: int
    own: Collection[int]
    ensure_locked: Callable[[], None]

    def restore(self, image: Image) -> None:
        """Put a row back as it was, but for what somebody else has written since.

        Raises:
            EventFailed: Cassandra does not take it.
            LockLost: another run may work on the stream.
        """
        where, key = self._place(image)
        if not image.existed:
            self._remove(where, key)
            return
        is_whole = self.statement.kind is Kind.DELETE and not self.statement.columns
        if is_whole:
            names = ", ".join(map(identifier, self.table.key))
            values = ", ".join(f"fromJson(:k{place})" for place in range(len(self.table.key)))
            cql = f"INSERT INTO {self.statement.quoted} ({names}) VALUES ({values})"
            self._write(f"{cql} USING TIMESTAMP :at", {**key, "at": self.at})
        current = self._current(where, key, touched(self.statement, self.table))
        for name, (value, _, expires) in image.cells.items():
            if self._is_own(current.get(name)):
                self._put(where, key, name, value, expires)

    def _place(self, image: Image) -> tuple[str, dict[str, object]]:
        """Return the conditions that name a row, and their values."""
        if not image.key:
            where = key_cql(self.statement, self.table.key)
            return where, bound_in(where, self.statement, self.parameters)
        conditions = [
            f"{identifier(name)} = fromJson(:k{place})" for place, name in enumerate(self.table.key)
        ]
        values: dict[str, object] = {
            f"k{place}": image.key[name] for place, name in enumerate(self.table.key)
        }
        return " AND ".join(conditions), values

    def _current(
        self, where: str, key: Mapping[str, object], names: Sequence[str]
    ) -> dict[str, int | None]:
        """Return the write times of columns by name; empty if there is no row."""
        parts = [f"writetime({identifier(name)}) AS w{place}" for place, name in enumerate(names)]
        first = identifier(self.table.key[0])
        cql = f"SELECT {', '.join([first, *parts])} FROM {self.statement.quoted} WHERE {where}"
        rows = attempted(self.control, cql, key, _TIMEOUT_S)
        if not rows:
            return {}
        return {name: rows[0][f"w{place}"] for place, name in enumerate(names)}

    def _is_own(self, write_time: int | None) -> bool:
        """Tell whether a value is the group's; a null counts as its own if it may have made it."""
        if write_time is None:
            return self.statement.may_leave_null or None in self.parameters.values()
        return write_time in self.own

    def _remove(self, where: str, key: Mapping[str, object]) -> None:
        """Delete what the event has made where there was no row."""
        table = self.table
        plain = tuple(name for name in table.regular if not table.is_collection(name))
        current = self._current(where, key, plain)
        foreign = [time for time in current.values() if time is not None and time not in self.own]
        if not self._has_collections(where, key):
            # An insert of the group, this one or a later one, also leaves the row's own marker.
            at = min(foreign) - 1 if foreign else self.at
            cql = f"DELETE FROM {self.statement.quoted} USING TIMESTAMP :at WHERE {where}"
            self._write(cql, {**key, "at": at})
        for name in touched(self.statement, self.table):
            if current.get(name) in self.own:
                self._put(where, key, name, "null", None)

    def _has_collections(self, where: str, key: Mapping[str, object]) -> bool:
        """Tell whether a row has collections, which only somebody else can have written."""
        names = [identifier(name) for name in self.table.regular if self.table.is_collection(name)]
        if not names:
            return False
        cql = f"SELECT {', '.join(names)} FROM {self.statement.quoted} WHERE {where}"
        rows = attempted(self.control, cql, key, _TIMEOUT_S)
        return any(value is not None for row in rows for value in row.values())

    def _put(
        self, where: str, key: Mapping[str, object], name: str, value: str, expires: int | None
    ) -> None:
        ttl = None
        if expires is not None:
            ttl = (expires - clock.now_micros() // 1000) // 1000
            # By now it would have expired.
            value = value if ttl > 0 else "null"
        using = "" if ttl is None or ttl <= 0 else " AND TTL :ttl"
        cql = (
            f"UPDATE {self.statement.quoted} USING TIMESTAMP :at{using}"
            f" SET {identifier(name)} = fromJson(:value) WHERE {where}"
        )
        values: dict[str, Any] = {**key, "at": self.at, "value": value}
        self._write(cql, values | ({"ttl": ttl} if using else {}))

    def _write(self, cql: str, values: Mapping[str, object]) -> None:
        self.ensure_locked()
        write_part(self.control, cql, values)


def write_part(control: Control, cql: str, values: Mapping[str, object]) -> None:
    """Write a part of a row that is put back."""
    attempted(control, cql, values, _TIMEOUT_S)
