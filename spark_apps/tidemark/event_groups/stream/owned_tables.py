"""Which stream writes a table: its groups are kept apart, those of two streams are not.

A table belongs to the first stream whose group writes it. Other streams can neither write nor read
it from then on, until it is released. What no stream writes can be read by all. A stream takes its
tables when a group is submitted, and again before the group begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tidemark import clock
from tidemark.cassandra import conditional
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.event_groups.definition.tokens import Refused, tokenized


@dataclass(frozen=True)
class Users:
    """The streams that use a table.

    Attributes:
        writer: the one whose groups write it; empty if it is only read.
        readers: those whose groups only read it.
        released_by: the run that is about to release it. A stream that takes the table meanwhile
            deletes this, and so ends the release.
    """

    writer: str = ""
    readers: frozenset[str] = frozenset()
    released_by: str = ""

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
            return Users(stream)
        return Users(readers=self.readers | {stream})


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
            f"SELECT writer, readers, released_by FROM {self._table}"
            " WHERE keyspace_name = ? AND table_name = ?",
            (keyspace, table_name),
        )
        if not found:
            return Users()
        [row] = found
        readers = frozenset(row["readers"] or ())
        return Users(row["writer"] or "", readers, row["released_by"] or "")

    def named(self, text: str) -> str:
        """Return the name of a table that somebody has written, as statements or as reports do."""
        if self.users(text).all:
            return text
        try:
            names = [one.name for one in tokenized(text) if one.text != "."]
        except Refused:
            return text
        return ".".join(names)

    def take(self, stream: str, tables: Mapping[str, bool]) -> None:
        """Let a stream use tables.

        Args:
            stream: its name.
            tables: whether it writes each of them, by keyspace and name, with a dot.

        Raises:
            InvalidInput: another stream uses one of them.
        """
        for name, writes in tables.items():
            while True:
                users = self.users(name)
                if other := users.other(stream, writes=writes):
                    what, do = refusal(other, name)
                    raise InvalidInput(what, where=f"stream {stream}", do=do)
                wanted = users.having(stream, writes=writes)
                if wanted == users or self.change(name, users, wanted):
                    break

    def release(self, name: str, users: Users, require_unused: Callable[[], None]) -> None:
        """Let other streams use a table.

        Args:
            name: its keyspace and its name, with a dot.
            users: who uses it, as they were read.
            require_unused: raises if an open group uses it. One that is submitted afterwards takes
                the table before it begins.

        Raises:
            InvalidInput: a stream has taken it meanwhile.
        """
        marked = replace(users, released_by=self._run.run_id)
        if self.change(name, users, marked):
            require_unused()
            if self.change(name, marked, Users()):
                return
        raise InvalidInput(f"a stream has taken the table {name} meanwhile", do="run it again")

    def change(self, name: str, expected: Users, users: Users) -> bool:
        """Write who uses a table, unless somebody else has; return whether it is written."""
        keyspace, _, table_name = name.partition(".")
        key = {"keyspace_name": keyspace, "table_name": table_name}
        values = {**_stored(users), "run_id": self._run.run_id, "updated_at": clock.now()}
        is_new = expected == Users()
        # Of a table that was released, the row is there.
        return (
            is_new
            and conditional.compare_and_set(self._control, self._table, key, values, expected=None)
        ) or conditional.compare_and_set(
            self._control, self._table, key, values, expected=_stored(expected)
        )


def refusal(other: str, name: str) -> tuple[str, str]:
    """Return what is wrong if another stream uses a table, and what to do."""
    return (
        f"groups of the stream {other} use the table {name}",
        f"submit it to that stream, or run `run_event_groups.py release {name}` if it is over",
    )


def _stored(users: Users) -> dict[str, object]:
    return {
        "writer": users.writer or None,
        "readers": set(users.readers) or None,
        "released_by": users.released_by or None,
    }
