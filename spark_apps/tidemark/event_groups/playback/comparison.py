"""Compares the rows that played events have written, in both keyspaces.

Complete rows are compared; for a delete of many rows, those that it left or that came later. A row
that several events have written counts once. Values are not reported: they may be personal data.
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
"""The maximum number of rows that are compared for one statement."""
_PARALLEL = 8
_TIMEOUT_S = 30
_MAX_LISTED = 20
Rows = Mapping[Sequence[str], Sequence[str]]
"""The JSON of all columns of each row, by the JSON of its key columns."""


@dataclass(frozen=True)
class TableDifference:
    """A row that differs.

    Attributes:
        key: the JSON of each column of its key.
        says: the columns that differ, or the only keyspace that has the row.
    """

    key: Mapping[str, str]
    says: str


class KeyspaceComparison:
    """Compares rows; use as a context manager."""

    def __init__(self, control: Control, copies: Copies) -> None:
        self._control, self._copies = control, copies
        self._lines: list[str] = []
        self._counts = dict.fromkeys(
            (
                *("rows_compared", "rows_different", "rows_only_in_source"),
                *("rows_only_in_target", "ranges_not_compared"),
            ),
            0,
        )
        # SQLite moves this to a temporary file once it is large.
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
        """Return numbers of rows, and of deletes with more than `MAX_ROWS` rows to compare."""
        return self._counts

    @property
    def lines(self) -> list[str]:
        """Return the first differences, one per line."""
        total = sum(self._counts.values()) - self._counts["rows_compared"]
        omitted = total - len(self._lines)
        return self._lines + ([f"and {omitted:,} more"] if omitted else [])

    def add(self, events: Sequence[PlayedEvent]) -> None:
        """Compare what events have written."""
        statements = [(event, parameters) for event in events for parameters in event.parameters]
        for start in range(0, len(statements), _PARALLEL):
            part = statements[start : start + _PARALLEL]
            row_pairs = in_parallel(lambda call: self._both(*call), part)
            for (event, _), (source_rows, target_rows) in zip(part, row_pairs, strict=True):
                self._compare(event, self._copies.table(event), source_rows, target_rows)

    def _both(self, event: PlayedEvent, parameters: Parameters) -> tuple[Rows, Rows]:
        table = self._copies.table(event)
        source = event.source
        key_columns = [name for name in table.key if name in source.key]
        where = source.where or key_cql(source, key_columns)
        names = columns_of(table)
        columns = ", ".join(f"toJson({identifier(name)}) AS c{n}" for n, name in enumerate(names))
        values = bound_in(where, source, parameters)

        def rows(quoted: str) -> Rows:
            cql = f"SELECT {columns} FROM {quoted} WHERE {where} LIMIT {MAX_ROWS + 1}"
            result = attempted(self._control, cql, values, _TIMEOUT_S)
            texts = [tuple(str(row[f"c{n}"]) for n in range(len(names))) for row in result]
            return {text[: len(table.key)]: text for text in texts}

        with event.named():
            return rows(source.quoted), rows(event.target.quoted)

    def _compare(self, event: PlayedEvent, table: Table, source: Rows, target: Rows) -> None:
        if max(len(source), len(target)) > MAX_ROWS:
            what = f"{event.source.name}: more than {MAX_ROWS:,} rows of {event.place}"
            self._counts["ranges_not_compared"] += 1
            if len(self._lines) < _MAX_LISTED:
                self._lines.append(f"{what} are not compared")
            return
        names = columns_of(table)
        for key in dict.fromkeys([*source, *target]):
            if not self._is_new(event.source.name, key):
                continue
            count = text = ""
            if key not in target:
                count, text = "rows_only_in_source", f"only in {event.source.keyspace}"
            elif key not in source:
                count, text = "rows_only_in_target", f"only in {event.target.keyspace}"
            elif source[key] != target[key]:
                pairs = zip(names, source[key], target[key], strict=True)
                count, text = "rows_different", ", ".join(name for name, a, b in pairs if a != b)
            first = [TableDifference(dict(zip(table.key, key, strict=True)), text)] if count else []
            counts = {"rows_compared": 1, **({count: 1} if count else {})}
            self.add_table(event.source.name, counts, first)

    def seen(self, name: str) -> Iterator[Sequence[str]]:
        """Yield the keys of the rows of a table that were compared, as JSON."""
        with closing(self._seen.execute("SELECT key FROM seen WHERE name = ?", (name,))) as cursor:
            for (key,) in cursor:
                yield json.loads(key)

    def add_table(
        self, name: str, counts: Mapping[str, int], first: Sequence[TableDifference]
    ) -> None:
        """Add the counts of a table, under the names of `counts`, and its first differences."""
        for count, number in counts.items():
            self._counts[count] += number
        for difference in first[: _MAX_LISTED - len(self._lines)]:
            key = ", ".join(" ".join(column) for column in difference.key.items())
            self._lines.append(f"{name} {key}: {difference.says}")

    def _is_new(self, table: str, key: Sequence[str]) -> bool:
        with closing(
            self._seen.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (table, json.dumps(key)))
        ) as cursor:
            return cursor.rowcount == 1


def columns_of(table: Table) -> list[str]:
    """Return all columns of a table, those of the key first."""
    return [*table.key, *(name for name in table.columns if name not in table.key)]
