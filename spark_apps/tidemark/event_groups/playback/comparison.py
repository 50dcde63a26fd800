"""The rows that played events have written, in both keyspaces: which of them differ.

Whole rows are compared, of a delete of many rows those that it has left or that came since. A row
that several events have written counts once. Values are not told: they may be personal data.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import identifier
from tidemark.event_groups.definition.statement import key_cql
from tidemark.event_groups.definition.tables import Table
from tidemark.event_groups.driver_engine.before_image import bound_in
from tidemark.event_groups.driver_engine.statements import Parameters, attempted, in_parallel
from tidemark.event_groups.playback.copies import Copies
from tidemark.event_groups.playback.selection import PlayedEvent

MAX_ROWS = 1000
"""The most rows that are compared of one statement."""
_TOGETHER = 8
_TIMEOUT_S = 30
_NAMED = 20
Rows = Mapping[Sequence[str], Sequence[str]]
"""Rows by key: the JSON of all columns, and of those of the key."""


@dataclass(frozen=True)
class TableDifference:
    """A row that differs.

    Attributes:
        key: the JSON of each column of its key.
        says: its columns that differ, or where it only is.
    """

    key: Mapping[str, str]
    says: str


class KeyspaceComparison:
    """Compares rows; use as a context manager."""

    def __init__(self, control: Control, copies: Copies) -> None:
        """Bind; nothing is read yet."""
        self._control, self._copies = control, copies
        self._lines: list[str] = []
        self._counts = dict.fromkeys(
            (
                *("rows_compared", "rows_different", "rows_only_in_source"),
                *("rows_only_in_target", "ranges_not_compared"),
            ),
            0,
        )
        # In a file of its own once it is large, which goes away with it.
        self._seen = sqlite3.connect("")
        self._seen.execute(
            "CREATE TABLE seen (name TEXT, key TEXT, PRIMARY KEY (name, key)) WITHOUT ROWID"
        )

    def __enter__(self) -> Self:
        """Return the comparison."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Forget which rows were compared."""
        self._seen.close()

    @property
    def counts(self) -> Mapping[str, int]:
        """Return numbers of rows, and of deletes that have more than `MAX_ROWS` rows to compare."""
        return self._counts

    @property
    def lines(self) -> list[str]:
        """Return the first differences, one in a line."""
        total = sum(self._counts.values()) - self._counts["rows_compared"]
        more = total - len(self._lines)
        return self._lines + ([f"and {more:,} more"] if more else [])

    def add(self, events: Sequence[PlayedEvent]) -> None:
        """Compare what events have written.

        Raises:
            CassandraUnavailable: a row cannot be read.
        """
        statements = [(event, one) for event in events for one in event.parameters]
        for start in range(0, len(statements), _TOGETHER):
            part = statements[start : start + _TOGETHER]
            read = in_parallel(lambda one: self._both(*one), part)
            for (event, _), (mine, others) in zip(part, read, strict=True):
                self._compare(event, self._copies.table(event), mine, others)

    def _both(self, event: PlayedEvent, parameters: Parameters) -> tuple[Rows, Rows]:
        table = self._copies.table(event)
        source = event.source
        named = [name for name in table.key if name in source.key]
        where = source.where or key_cql(source, named)
        names = columns_of(table)
        columns = ", ".join(f"toJson({identifier(one)}) AS c{n}" for n, one in enumerate(names))
        values = bound_in(where, source, parameters)

        def rows(quoted: str) -> Rows:
            cql = f"SELECT {columns} FROM {quoted} WHERE {where} LIMIT {MAX_ROWS + 1}"
            found = attempted(self._control, cql, values, _TIMEOUT_S)
            texts = [tuple(str(row[f"c{n}"]) for n in range(len(names))) for row in found]
            return {text[: len(table.key)]: text for text in texts}

        with event.named():
            return rows(source.quoted), rows(event.target.quoted)

    def _compare(self, event: PlayedEvent, table: Table, mine: Rows, others: Rows) -> None:
        if max(len(mine), len(others)) > MAX_ROWS:
            what = f"{event.source.name}: more than {MAX_ROWS:,} rows of {event.place}"
            self._counts["ranges_not_compared"] += 1
            if len(self._lines) < _NAMED:
                self._lines.append(f"{what} are not compared")
            return
        names = columns_of(table)
        for key in dict.fromkeys([*mine, *others]):
            if not self._is_new(event.source.name, key):
                continue
            count = says = ""
            if key not in others:
                count, says = "rows_only_in_source", f"only in {event.source.keyspace}"
            elif key not in mine:
                count, says = "rows_only_in_target", f"only in {event.target.keyspace}"
            elif mine[key] != others[key]:
                pairs = zip(names, mine[key], others[key], strict=True)
                count, says = "rows_different", ", ".join(n for n, one, two in pairs if one != two)
            first = [TableDifference(dict(zip(table.key, key, strict=True)), says)] if count else []
            counts = {"rows_compared": 1, **({count: 1} if count else {})}
            self.add_found(event.source.name, counts, first)

    def seen(self, name: str) -> Iterator[Sequence[str]]:
        """Yield the keys of the rows of a table that were compared, in JSON."""
        with closing(self._seen.execute("SELECT key FROM seen WHERE name = ?", (name,))) as found:
            for (key,) in found:
                yield json.loads(key)

    def add_found(
        self, name: str, counts: Mapping[str, int], first: Sequence[TableDifference]
    ) -> None:
        """Add what was found of rows of a table.

        Args:
            name: `keyspace.table`.
            counts: numbers of rows, as `counts` names them.
            first: some of those that differ.
        """
        for count, number in counts.items():
            self._counts[count] += number
        for one in first[: _NAMED - len(self._lines)]:
            key = ", ".join(" ".join(column) for column in one.key.items())
            self._lines.append(f"{name} {key}: {one.says}")

    def _is_new(self, table: str, key: Sequence[str]) -> bool:
        with closing(
            self._seen.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (table, json.dumps(key)))
        ) as done:
            return done.rowcount == 1


def columns_of(table: Table) -> list[str]:
    """Return all columns of a table, those of the key first."""
    return [*table.key, *(name for name in table.columns if name not in table.key)]
