"""Reads what reports need of groups, and a run does not: their places and times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from tidemark.cassandra.control import Row
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.event_groups.stream.states import StoredGroup
from tidemark.event_groups.stream.store import Stream

_PAGE = 1000


def existing(stream: Stream, name: str) -> StoredGroup:
    """Return a group.

    Raises:
        InvalidInput: there is no such group.
    """
    group = stream.group(name)
    if group is None:
        raise InvalidInput(
            f"there is no group {name}", where=f"stream {stream.name}", do="see status"
        )
    return group


class History:
    """Reads facts about the groups of one stream for reports."""

    def __init__(self, run: RunContext, stream: str) -> None:
        self._control, self._stream = run.control, stream
        self._groups, self._order, self._events = (
            table(run.settings.keyspace, name)
            for name in ("event_group", "event_group_order", "group_event")
        )

    def places(self, first: int, last: int) -> Iterator[tuple[int, str]]:
        """Yield the sequences and ids of groups in order, from `first` to `last` inclusive.

        If a group is submitted twice at once, one submission leaves a place that is not its own.
        """
        for row in self._control.stream(
            f"SELECT sequence, id FROM {self._order}"
            " WHERE stream = ? AND sequence >= ? AND sequence <= ?",
            (self._stream, first, last),
            page=_PAGE,
        ):
            yield row["sequence"], row["id"]

    def times(self, name: str) -> Row:
        """Return submitted_at, updated_at and ended_at (UTC without zone) and run_id of a group."""
        [row] = self._control.execute(
            f"SELECT submitted_at, updated_at, ended_at, run_id FROM {self._groups}"
            " WHERE stream = ? AND id = ?",
            (self._stream, name),
        )
        return row

    def submitted(self, names: Sequence[str]) -> dict[str, datetime]:
        """Return when groups were submitted, by id."""
        answers = self._control.execute_many(
            f"SELECT id, submitted_at FROM {self._groups} WHERE stream = ? AND id = ?",
            [(self._stream, name) for name in names],
        )
        return {
            row["id"]: row["submitted_at"].replace(tzinfo=UTC) for found in answers for row in found
        }

    def times_of_events(self, name: str) -> dict[str, Row]:
        """Return updated_at and run_id of the events of a group that have begun, by event."""
        rows = self._control.execute(
            f"SELECT event, updated_at, run_id FROM {self._events}"
            " WHERE stream = ? AND group_id = ?",
            (self._stream, name),
        )
        return {row["event"]: row for row in rows}
