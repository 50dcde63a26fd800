"""Which stream writes a table: its groups are kept apart, those of two streams are not.

A table belongs to the first stream whose group writes it. Other streams can neither write nor read
it from then on, until it is released. What no stream writes can be read by all. A stream takes its
tables when a group is submitted; and each run takes those of its new groups once more, since they
may have been released before the groups were there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from tidemark import clock
from tidemark.cassandra import conditional
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.event_groups.definition.tokens import Refused, tokenized


class TableTaken(InvalidInput):
    """Groups of another stream use a table."""


@dataclass(frozen=True)
class Users:
    """The streams that use a table.

    Attributes:
        writer: the one whose groups write it; empty if it is only read.
        readers: those whose groups only read it.
        last_write_time: the newest write time of those that it was released by, in microseconds.
        change_id: of the last change; None without one.
    """

    writer: str = ""
    readers: frozenset[str] = frozenset()
    last_write_time: int = 0
    change_id: UUID | None = field(default=None, compare=False)

    @property
    def all(self) -> list[str]:
        """Return all of them."""
        return sorted({self.writer, *self.readers} - {""})

    def other(self, stream: str, *, writes: bool) -> str:
        """Return a stream because of which another one may not write or read; empty without one."""
        if self.writer:
            return "" if self.writer == stream else self.writer
        return min(self.readers - {stream}, default="") if writes else ""

    def having(self, stream: str, *, writes: bool) -> Users:
        """Return these and a stream, which may use the table."""
        if writes or self.writer == stream:
            return Users(stream, last_write_time=self.last_write_time)
        return Users("", self.readers | {stream}, self.last_write_time)


class OwnedTables:
    """The tables of all streams."""

    def __init__(self, run: RunContext) -> None:
        """Bind to a run."""
        self._run, self._control = run, run.control
        self._table = table(run.settings.keyspace, "event_group_table")

    def users(self, name: str) -> Users:
        """Return who uses a table; `name` is its keyspace and its name, with a dot."""
        keyspace, _, table_name = name.partition(".")
        found = self._control.execute(
            f"SELECT writer, readers, last_write_time, change_id FROM {self._table}"
            " WHERE keyspace_name = ? AND table_name = ?",
            (keyspace, table_name),
        )
        if not found:
            return Users()
        [row] = found
        return Users(
            row["writer"] or "",
            frozenset(row["readers"] or ()),
            row["last_write_time"] or 0,
            row["change_id"],
        )

    def named(self, text: str) -> str:
        """Return the name of a table that somebody has written, as statements or as reports do."""
        if self.users(text).all:
            return text
        try:
            names = [one.name for one in tokenized(text) if one.text != "."]
        except Refused:
            return text
        return ".".join(names)

    def take(self, stream: str, tables: Mapping[str, bool], *, executes: bool = False) -> int:
        """Let a stream use tables.

        Args:
            stream: its name.
            tables: whether it writes each of them, by keyspace and name, with a dot.
            executes: whether a run is to execute groups with them. Whoever has read before who uses
                them cannot release them then.

        Returns:
            the newest write time of streams that have released one, in microseconds.

        Raises:
            TableTaken: another stream uses one of them.
        """
        known = {name: self._free(stream, name, writes) for name, writes in tables.items()}
        newest = 0
        for name, writes in tables.items():
            users = known[name]
            while executes or users.having(stream, writes=writes) != users:
                if self.change(name, users, users.having(stream, writes=writes)):
                    break
                users = self._free(stream, name, writes)
            newest = max(newest, users.last_write_time)
        return newest

    def _free(self, stream: str, name: str, writes: bool) -> Users:
        users = self.users(name)
        if other := users.other(stream, writes=writes):
            what, do = refusal(other, name)
            raise TableTaken(what, where=f"stream {stream}", do=do)
        return users

    def change(self, name: str, expected: Users, users: Users) -> bool:
        """Write who uses a table, unless somebody else has; return whether it is written."""
        keyspace, _, table_name = name.partition(".")
        values: dict[str, object] = {
            "writer": users.writer or None,
            "readers": set(users.readers) or None,
            "last_write_time": users.last_write_time or None,
            "change_id": uuid4(),
            "run_id": self._run.run_id,
            "updated_at": clock.now(),
        }
        return conditional.compare_and_set(
            self._control,
            self._table,
            {"keyspace_name": keyspace, "table_name": table_name},
            values,
            expected={"change_id": expected.change_id},
        )


def refusal(other: str, name: str) -> tuple[str, str]:
    """Return what is wrong if another stream uses a table, and what to do."""
    return (
        f"groups of the stream {other} use the table {name}",
        f"submit it to that stream, or run `run_event_groups.py release {name}` if it is over",
    )
