"""Which stream may write a table: groups of one stream are isolated, those of two are not.

A table belongs to the first stream whose group writes it. From then on other streams can neither
write nor read it, until it is released. All streams can read a table that none writes. A stream
claims its tables when a group is submitted. Each run claims those of its new groups again, since
they may have been released before the groups were stored.
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
        writer: the stream whose groups write it; empty if it is only read.
        readers: the streams whose groups only read it.
        last_write_time: the newest write time of streams that have released it, in microseconds.
        change_id: of the last change; None without one.
    """

    writer: str = ""
    readers: frozenset[str] = frozenset()
    last_write_time: int = 0
    change_id: UUID | None = field(default=None, compare=False)

    @property
    def all(self) -> list[str]:
        """Return the writer and the readers."""
        return sorted({self.writer, *self.readers} - {""})

    def other(self, stream: str, *, writes: bool) -> str:
        """Return a stream because of which `stream` may not use the table; empty if it may."""
        if self.writer:
            return "" if self.writer == stream else self.writer
        return min(self.readers - {stream}, default="") if writes else ""

    def having(self, stream: str, *, writes: bool) -> Users:
        """Return the users with a further stream, which may use the table."""
        if writes or self.writer == stream:
            return Users(stream, last_write_time=self.last_write_time)
        return Users("", self.readers | {stream}, self.last_write_time)


class OwnedTables:
    """The tables of all streams."""

    def __init__(self, run: RunContext) -> None:
        self._run, self._control = run, run.control
        self._table = table(run.settings.keyspace, "event_group_table")

    def users(self, name: str) -> Users:
        """Return the users of the table `keyspace.table`."""
        keyspace, _, table_name = name.partition(".")
        rows = self._control.execute(
            f"SELECT writer, readers, last_write_time, change_id FROM {self._table}"
            " WHERE keyspace_name = ? AND table_name = ?",
            (keyspace, table_name),
        )
        if not rows:
            return Users()
        [row] = rows
        return Users(
            row["writer"] or "",
            frozenset(row["readers"] or ()),
            row["last_write_time"] or 0,
            row["change_id"],
        )

    def named(self, text: str) -> str:
        """Return the stored name of a table, given as in statements or as in reports."""
        if self.users(text).all:
            return text
        try:
            names = [token.name for token in tokenized(text) if token.text != "."]
        except Refused:
            return text
        return ".".join(names)

    def take(self, stream: str, tables: Mapping[str, bool], *, executes: bool = False) -> int:
        """Claim tables for a stream, or claim them again.

        Args:
            stream: its name.
            tables: whether it writes each of them, by `keyspace.table`.
            executes: whether a run will execute groups with them. Then nobody who read the users
                before can release the tables.

        Returns:
            the newest write time of streams that have released one, in microseconds.

        Raises:
            TableTaken: another stream uses one of them.
        """
        users_by_table = {name: self._free(stream, name, writes) for name, writes in tables.items()}
        newest = 0
        for name, writes in tables.items():
            users = users_by_table[name]
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
        """Write the users of a table unless they have changed; return whether they are written."""
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
    """Return the error that another stream uses a table, and what to do."""
    return (
        f"groups of the stream {other} use the table {name}",
        f"submit it to that stream, or run `run_event_groups.py release {name}` if it is over",
    )
