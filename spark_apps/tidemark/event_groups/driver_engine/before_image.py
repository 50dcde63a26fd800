"""Before-images of rows, and how rows are restored from them, by the rule of `undo`.

Cells are read and written as the bytes that Cassandra stores, so that the restored value is
identical: the zeros of a decimal, NaN, the contents of a frozen collection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tidemark import clock
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import identifier
from tidemark.cassandra.serialized import Serialized
from tidemark.event_groups.definition.statement import Statement, StatementKind, key_cql
from tidemark.event_groups.definition.tables import Table, touched
from tidemark.event_groups.driver_engine.statements import (
    Parameters,
    attempted,
    attempted_serialized,
    bound,
)
from tidemark.event_groups.driver_engine.undo import STAYS_LATER, ColumnState
from tidemark.event_groups.failure import EventFailed
from tidemark.event_groups.stream.states import NOTHING, Cell, Image

MAX_ROWS = 1000
"""The maximum number of rows that one delete may delete if they are to be restored."""
MAX_ROW_BYTES = 2 * 1024 * 1024
"""The maximum size of a row that is to be restored: it is stored in one cell, as hexadecimal."""
_TIMEOUT_S = 30
SerializedRow = Mapping[str, Serialized | None]


def read(
    control: Control, statement: Statement, table: Table, parameters: Parameters, number: int
) -> list[Image]:
    """Read the rows that a statement will write; `number` is the index of its parameters.

    Raises:
        EventFailed: there are too many, one is too large, or Cassandra does not answer.
    """
    is_delete = statement.kind is StatementKind.DELETE
    where = statement.where if is_delete else key_cql(statement, table.key)
    names = touched(statement, table)
    cql = (
        f"SELECT {_selected(table.key, names)} FROM {statement.quoted} WHERE {where}"
        f" LIMIT {MAX_ROWS + 1}"
    )
    values = bound_in(where, statement, parameters)
    rows = attempted_serialized(control, cql, values, _TIMEOUT_S)
    if len(rows) > MAX_ROWS:
        raise EventFailed(
            f"it deletes more than {MAX_ROWS:,} rows of {statement.name}, too many to restore"
        )
    if any(sum(len(cell or b"") for cell in row.values()) > MAX_ROW_BYTES for row in rows):
        raise EventFailed(
            f"a row of {statement.name} has more than {MAX_ROW_BYTES:,} bytes, too many to restore"
        )
    if not rows and not is_delete:
        return [Image(number, False, {}, {})]
    return [
        Image(
            number,
            True,
            {name: row[f"k{index}"] or Serialized() for index, name in enumerate(table.key)},
            _cells(row, names),
        )
        for row in rows
    ]


def named_in(where: str, statement: Statement) -> frozenset[str]:
    """Return the parameters of a statement that occur in conditions."""
    return frozenset(name for name in statement.parameters if f":{name})" in where)


def bound_in(where: str, statement: Statement, parameters: Parameters) -> dict[str, object]:
    """Return the bound parameters of a statement that occur in conditions."""
    return bound(parameters, named_in(where, statement))


def _selected(key_columns: Sequence[str], names: Sequence[str]) -> str:
    parts = [f"{identifier(name)} AS k{index}" for index, name in enumerate(key_columns)]
    for index, name in enumerate(names):
        column = identifier(name)
        parts += [
            f"{column} AS c{index}",
            f"writetime({column}) AS w{index}",
            f"ttl({column}) AS t{index}",
        ]
    return ", ".join(parts)


def _cells(row: SerializedRow, names: Sequence[str]) -> dict[str, Cell]:
    now_ms = clock.now_micros() // 1000
    cells = {}
    for index, name in enumerate(names):
        written, ttl = row[f"w{index}"], row[f"t{index}"]
        cells[name] = Cell(
            row[f"c{index}"],
            None if written is None else written.whole_number,
            None if ttl is None else now_ms + ttl.whole_number * 1000,
        )
    return cells


def newest_write_time(images: Sequence[Image]) -> int:
    """Return the newest write time in rows, in microseconds; 0 if there is none."""
    times = [cell.written for image in images for cell in image.cells.values()]
    return max((time for time in times if time is not None), default=0)


@dataclass(frozen=True)
class Restoring:
    """Restores the rows of one statement.

    Attributes:
        control: the session.
        statement: of the event.
        table: its table.
        parameters: of the statement.
        written_at: its write time.
        at: the write time of restored values.
        own: the write times of the events that are undone, and of their restored values.
        ensure_locked: called before each write.
    """

    control: Control
    statement: Statement
    table: Table
    parameters: Parameters
    written_at: int
    at: int
    own: Collection[int]
    ensure_locked: Callable[[], None]

    def restore(self, image: Image) -> None:
        """Restore a row, except columns that somebody else has written since.

        Raises:
            EventFailed: Cassandra rejects a write.
            LockLost: another run may work on the stream.
        """
        where, key = self._row_conditions(image)
        if not image.existed and not self._is_shared(where, key):
            # The delete also hides writes of the event that arrive late.
            self._delete(where, key, self.at)
            return
        if self.statement.kind is StatementKind.DELETE and not self.statement.columns:
            names = ", ".join(map(identifier, self.table.key))
            values = ", ".join(f":k{index}" for index in range(len(self.table.key)))
            cql = f"INSERT INTO {self.statement.quoted} ({names}) VALUES ({values})"
            self._write(f"{cql} USING TIMESTAMP :at AND TTL 0", {**key, "at": self.at})
        names_touched = touched(self.statement, self.table)
        cells = self._read(where, key, names_touched)
        for name in names_touched:
            cell = cells.get(name, NOTHING)
            state = self._column_state(cell, name)
            if state.is_written:
                cell = image.cells.get(name, NOTHING) if state.gets_image else cell
                self._put(where, key, name, cell)

    def _row_conditions(self, image: Image) -> tuple[str, dict[str, object]]:
        """Return the conditions that name a row, and their values."""
        if not image.key:
            where = key_cql(self.statement, self.table.key)
            return where, bound_in(where, self.statement, self.parameters)
        conditions = [
            f"{identifier(name)} = :k{index}" for index, name in enumerate(self.table.key)
        ]
        values: dict[str, object] = {
            f"k{index}": image.key[name] for index, name in enumerate(self.table.key)
        }
        return " AND ".join(conditions), values

    def _read(self, where: str, key: Mapping[str, object], names: Sequence[str]) -> dict[str, Cell]:
        """Return the cells of a row by column; empty if there is no row."""
        cql = (
            f"SELECT {_selected(self.table.key, names)} FROM {self.statement.quoted} WHERE {where}"
        )
        rows = attempted_serialized(self.control, cql, key, _TIMEOUT_S)
        return _cells(rows[0], names) if rows else {}

    def _column_state(self, cell: Cell, column: str) -> ColumnState[bool]:
        is_own = cell.written in self.own
        return ColumnState(
            is_own=is_own,
            is_null=cell.written is None,
            is_older=cell.written is not None and not is_own and cell.written < self.written_at,
            may_be_cleared=self._may_clear(column),
        )

    def _may_clear(self, column: str) -> bool:
        """Tell whether the statement may have left a null in a column, now or by its TTL."""
        tokens = self.statement.assigned.get(column, ())
        nulls = {f":{name}" for name, value in self.parameters.items() if value is None}
        return (
            self.statement.kind is StatementKind.DELETE
            or self.statement.ttl is not None
            or any(token.is_word("NULL") or token.text in nulls for token in tokens)
        )

    def _is_shared(self, where: str, key: Mapping[str, object]) -> bool:
        """Return whether somebody else has written a column of a row that the event created.

        If so, delete the row marker that the event has written.
        """
        if self._has_many_cells(where, key):
            return True
        plain = tuple(name for name in self.table.regular if not self.table.has_many_cells(name))
        times = [cell.written for cell in self._read(where, key, plain).values()]
        foreign = [time for time in times if time is not None and time not in self.own]
        if foreign:
            # The event's insert also left a row marker; a marker of somebody else stays.
            self._delete(where, key, min(self.written_at, *(time - 1 for time in foreign)))
        return bool(foreign)

    def _delete(self, where: str, key: Mapping[str, object], at: int) -> None:
        cql = f"DELETE FROM {self.statement.quoted} USING TIMESTAMP :at WHERE {where}"
        self._write(cql, {**key, "at": at})

    def _has_many_cells(self, where: str, key: Mapping[str, object]) -> bool:
        """Tell whether columns of many cells have values, which somebody else must have written."""
        names = [identifier(name) for name in self.table.regular if self.table.has_many_cells(name)]
        if not names:
            return False
        cql = f"SELECT {', '.join(names)} FROM {self.statement.quoted} WHERE {where}"
        rows = attempted_serialized(self.control, cql, key, _TIMEOUT_S)
        return any(value is not None for row in rows for value in row.values())

    def _put(self, where: str, key: Mapping[str, object], name: str, cell: Cell) -> None:
        is_foreign = cell.written is not None and cell.written not in self.own
        at = self.at + STAYS_LATER if is_foreign else self.at
        # The table may have a default TTL.
        value, using, ttl = cell.value, " AND TTL 0", {}
        if cell.expires is not None:
            remaining_s = (cell.expires - clock.now_micros() // 1000) // 1000
            if remaining_s > 0:
                using, ttl = " AND TTL :ttl", {"ttl": remaining_s}
            else:
                # It would have expired by now.
                value = None
        cql = (
            f"UPDATE {self.statement.quoted} USING TIMESTAMP :at{using}"
            f" SET {identifier(name)} = :value WHERE {where}"
        )
        self._write(cql, {**key, "at": at, "value": value, **ttl})

    def _write(self, cql: str, values: Mapping[str, object]) -> None:
        self.ensure_locked()
        write_part(self.control, cql, values)


def write_part(control: Control, cql: str, values: Mapping[str, object]) -> None:
    """Write a part of a restored row."""
    attempted(control, cql, values, _TIMEOUT_S)
