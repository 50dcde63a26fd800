"""The parts in which rows that Spark has read or will write are stored, in any number."""

from __future__ import annotations

from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table

ROWS, SIZES = "named_result", "named_result_size"
RESULT, BEFORE = "result", "before"


class KeptParts:
    """The parts of the events of one group."""

    def __init__(self, control: Control, keyspace: str, group: tuple[str, str]) -> None:
        """Bind to a group: its stream and its id."""
        self._control, self._group = control, group
        self._rows, self._sizes = table(keyspace, ROWS), table(keyspace, SIZES)

    def announce(self, event: str, kind: str, parts: int, count: int) -> None:
        """Record how many parts and rows are about to be written."""
        self._control.execute(
            f"INSERT INTO {self._sizes}"
            " (stream, group_id, event, kind, parts, row_count) VALUES (?, ?, ?, ?, ?, ?)",
            (*self._group, event, kind, parts, count),
        )

    def empty(self, event: str, kind: str) -> None:
        """Delete the rows of an event."""
        self._control.execute_many(
            f"DELETE FROM {self._rows}"
            " WHERE stream = ? AND group_id = ? AND event = ? AND kind = ? AND part = ?",
            self.places(event, kind),
        )

    def forget(self, event: str, kind: str) -> None:
        """Delete the numbers of an event's parts and rows, after the rows."""
        self._control.execute(
            f"DELETE FROM {self._sizes}"
            " WHERE stream = ? AND group_id = ? AND event = ? AND kind = ?",
            (*self._group, event, kind),
        )

    def events(self, kind: str) -> list[str]:
        """Return the events that have stored rows of a kind."""
        rows = self._control.execute(
            f"SELECT event, kind FROM {self._sizes} WHERE stream = ? AND group_id = ?", self._group
        )
        return [row["event"] for row in rows if row["kind"] == kind]

    def places(self, event: str, kind: str) -> list[tuple[str, str, str, str, int]]:
        """Return the partition keys of an event's rows."""
        size = self.size(event, kind)
        return [(*self._group, event, kind, part) for part in range(size["parts"] if size else 0)]

    def size(self, event: str, kind: str) -> Row | None:
        """Return the recorded numbers `parts` and `row_count`."""
        rows = self._control.execute(
            f"SELECT parts, row_count FROM {self._sizes}"
            " WHERE stream = ? AND group_id = ? AND event = ? AND kind = ?",
            (*self._group, event, kind),
        )
        return rows[0] if rows else None

    def newest_write_time(self) -> int:
        """Return when the group's last rows were announced, in microseconds; 0 for never."""
        key = dict(zip(("stream", "group_id"), self._group, strict=True))
        return self._control.newest_write_time(self._sizes, "row_count", key)
