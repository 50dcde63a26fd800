"""The rows of groups and their events."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import NamedTuple
from uuid import uuid4

from tidemark import clock
from tidemark.cassandra import conditional
from tidemark.cassandra.control import Row
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.event_groups.definition.file import GroupDefinition
from tidemark.event_groups.stream.before_images import BeforeImages
from tidemark.event_groups.stream.deliveries import Deliveries
from tidemark.event_groups.stream.libraries import LoadedLibraries
from tidemark.event_groups.stream.states import (
    EventState,
    GroupState,
    StoredEvent,
    StoredGroup,
    Version,
    as_json,
)

_PAGE = 200
_STATES = 100
"""The maximum number of groups in one request for states: each is in another partition."""


Place = tuple[str, int]
"""The id of a group, and its sequence in the stream."""


class EndedGroup(NamedTuple):
    """A group that has ended, with the newest write time of its statements in microseconds."""

    id: str
    last_write_time: int


class Stream:
    """The groups of one stream."""

    def __init__(self, run: RunContext, name: str) -> None:
        self._run, self.name = run, name
        self._control = run.control
        self._groups, self._order, self._events = (
            table(run.settings.keyspace, name)
            for name in ("event_group", "event_group_order", "group_event")
        )
        self.images = BeforeImages(run, name)
        self._read = (
            "SELECT id, sequence, state, definition, reason, is_cancelled, change_id,"
            f" last_write_time FROM {self._groups} WHERE stream = ? AND id = ?"
        )

    def submit(self, definition: GroupDefinition) -> tuple[int, bool]:
        """Append a group; return its sequence, and whether it is new.

        Repeating a submission completes one that died.
        """
        name = definition.group.group
        text = definition.group.model_dump_json(by_alias=True, exclude_unset=True)
        key = {"stream": self.name, "id": name}
        values = {
            "state": GroupState.SUBMITTED,
            "definition": text,
            "change_id": uuid4(),
            "run_id": self._run.run_id,
            "submitted_at": clock.now(),
        }
        placed = None
        # Purge may delete an ended group of this id at any moment.
        while placed is None:
            conditional.compare_and_set(self._control, self._groups, key, values, expected=None)
            self.require_free(definition)
            placed = self._place(name)
        return placed

    def has(self, name: str) -> bool:
        """Tell whether a group has its place in the stream, which a dead submission may lack."""
        rows = self._sequence_and_state(name)
        sequence = rows[0]["sequence"] if rows else None
        return sequence is not None and self._id_at(sequence) == name

    def require_free(self, definition: GroupDefinition) -> None:
        """Check that no other group has this id; the same group may have it.

        Raises:
            InvalidInput: another group has it.
        """
        name = definition.group.group
        rows = self._control.execute(
            f"SELECT definition FROM {self._groups} WHERE stream = ? AND id = ?",
            (self.name, name),
        )
        # Texts are not compared: JSON, YAML and Python may order the same values differently.
        if rows and GroupDefinition.stored(name, rows[0]["definition"]) != definition:
            raise InvalidInput(
                f"another group {name} was submitted before",
                where=f"stream {self.name}",
                do="give this one another id",
            )

    def _place(self, name: str) -> tuple[int, bool] | None:
        """Give a group a place unless it has one; return the place and whether it is new.

        The row of the order is written last: a run that finds it finds the group's sequence as
        well, so it skips no group that is being submitted.

        Returns:
            None if the group does not exist any more.
        """
        key = {"stream": self.name, "id": name}
        while rows := self._sequence_and_state(name):
            sequence, state = rows[0]["sequence"], rows[0]["state"]
            # Read first: every earlier place is permanently taken, by this group or by another.
            new = self.next_sequence()
            # If the group has begun or was cancelled, purge may have deleted its place already.
            if sequence is not None and (
                state != GroupState.SUBMITTED or self._id_at(sequence) == name
            ):
                return sequence, False
            expected = {"sequence": sequence, "state": state}
            if not conditional.compare_and_set(
                self._control, self._groups, key, {"sequence": new}, expected=expected
            ):
                # Somebody else is submitting, cancelling or purging the group.
                continue
            order_key = {"stream": self.name, "sequence": new}
            if conditional.compare_and_set(
                self._control, self._order, order_key, {"id": name}, expected=None
            ):
                return new, True
        return None

    def _sequence_and_state(self, name: str) -> list[Row]:
        """Return the sequence of a group (null if it has none yet) and its state, if it exists."""
        return self._control.execute(
            f"SELECT sequence, state FROM {self._groups} WHERE stream = ? AND id = ?",
            (self.name, name),
        )

    def _id_at(self, sequence: int) -> str | None:
        rows = self._control.execute(
            f"SELECT id FROM {self._order} WHERE stream = ? AND sequence = ?",
            (self.name, sequence),
        )
        return rows[0]["id"] if rows else None

    def open(
        self,
        first: int | None = None,
        ended: Callable[[Sequence[EndedGroup]], None] = lambda groups: None,
    ) -> Iterator[StoredGroup]:
        """Yield the groups that have not ended in order, from the sequence `first` on.

        `ended` is called with the ended groups between them before later groups are yielded.
        """
        places = self._control.stream(
            f"SELECT sequence, id FROM {self._order} WHERE stream = ? AND sequence >= ?",
            (self.name, self._open_from() if first is None else first),
            page=_PAGE,
        )
        while page := list(islice(places, _PAGE)):
            # If a group was submitted twice at once, one of its places is not its own.
            rows = self._not_ended([_place(row) for row in page], ended)
            yield from map(_stored, rows)

    def not_ended(
        self, places: Sequence[Place], ended: Callable[[Sequence[EndedGroup]], None]
    ) -> dict[Place, StoredGroup]:
        """Return those of the groups that have not ended.

        `ended` is called with the others, except groups that purge has deleted.
        """
        return {_place(row): _stored(row) for row in self._not_ended(places, ended)}

    def states(
        self, places: Sequence[Place], ended: Callable[[Sequence[EndedGroup]], None]
    ) -> dict[Place, GroupState]:
        """Return the states of those of the groups that have not ended; see `not_ended`."""
        names = [name for name, _ in places]
        answers = self._control.execute_many(
            f"SELECT id, sequence, state, last_write_time FROM {self._groups}"
            " WHERE stream = ? AND id IN ?",
            [(self.name, names[at : at + _STATES]) for at in range(0, len(names), _STATES)],
        )
        rows = self._open_of(answers, places, ended)
        return {_place(row): GroupState(row["state"]) for row in rows}

    def versions(self, names: Iterable[str]) -> set[Version]:
        """Return the versions of those of the groups that exist."""
        answers = self._control.execute_many(
            f"SELECT id, change_id FROM {self._groups} WHERE stream = ? AND id = ?",
            [(self.name, name) for name in names],
        )
        return {Version(**row) for rows in answers for row in rows}

    def _not_ended(
        self, places: Sequence[Place], ended: Callable[[Sequence[EndedGroup]], None]
    ) -> list[Row]:
        keys = [(self.name, name) for name in dict.fromkeys(name for name, _ in places)]
        return self._open_of(self._control.execute_many(self._read, keys), places, ended)

    def _open_of(
        self,
        answers: Iterable[Sequence[Row]],
        places: Collection[Place],
        ended: Callable[[Sequence[EndedGroup]], None],
    ) -> list[Row]:
        """Return the rows of groups that have not ended, in the order of the stream."""
        wanted = frozenset(places)
        rows = [row for answer in answers for row in answer if _place(row) in wanted]
        rows.sort(key=itemgetter("sequence"))
        ended_rows = [row for row in rows if GroupState(row["state"]).has_ended]
        ended([EndedGroup(row["id"], row["last_write_time"] or 0) for row in ended_rows])
        return [row for row in rows if not GroupState(row["state"]).has_ended]

    def _open_from(self) -> int:
        rows = self._control.execute(
            f"SELECT open_from FROM {self._order} WHERE stream = ? LIMIT 1", (self.name,)
        )
        return (rows[0]["open_from"] or 0) if rows else 0

    def last_write_time(self) -> int:
        """Return the newest write time that ended groups below `open_from` may have.

        From now on, this session's writes win over this value: the clock of the machine that wrote
        it may have been ahead of this one.
        """
        rows = self._control.execute(
            f"SELECT last_write_time, writetime(last_write_time) AS written FROM {self._order}"
            " WHERE stream = ? LIMIT 1",
            (self.name,),
        )
        if not rows:
            return 0
        self._control.write_times.pass_by(rows[0]["written"] or 0)
        return rows[0]["last_write_time"] or 0

    def move_open_from(self, sequence: int, last_write_time: int) -> None:
        """Record that all groups below a sequence have ended, and wrote no later than this."""
        self._control.execute(
            f"UPDATE {self._order} SET open_from = ?, last_write_time = ? WHERE stream = ?",
            (sequence, last_write_time, self.name),
        )

    def next_sequence(self) -> int:
        """Return the sequence after the last group, even if purge has deleted all groups."""
        rows = self._control.execute(
            f"SELECT sequence, open_from FROM {self._order} WHERE stream = ?"
            " ORDER BY sequence DESC LIMIT 1",
            (self.name,),
        )
        if not rows:
            return 1
        [row] = rows
        return max((row["sequence"] or 0) + 1, row["open_from"] or 1)

    def group(self, name: str) -> StoredGroup | None:
        """Return a group; None if it does not exist, or its submission is incomplete."""
        rows = self._control.execute(self._read, (self.name, name))
        return _stored(rows[0]) if rows and rows[0]["sequence"] is not None else None

    def state_of(self, name: str) -> tuple[GroupState, str]:
        """Return the state of a submitted group, and the reason."""
        [row] = self._control.execute(
            f"SELECT state, reason FROM {self._groups} WHERE stream = ? AND id = ?",
            (self.name, name),
        )
        return GroupState(row["state"]), row["reason"] or ""

    def newest_write_time(self, name: str) -> int:
        """Return the newest write time of a group in microseconds; 0 if it has written nothing."""
        rows = self._control.execute(self._read, (self.name, name))
        event_times = [event.write_time or 0 for event in self.events(name).values()]
        return max([*(row["last_write_time"] or 0 for row in rows), *event_times], default=0)

    def set_state(
        self,
        name: str,
        expected: GroupState,
        state: GroupState,
        reason: str = "",
        *,
        last_write_time: int | None = None,
        is_cancelled: bool = False,
        version: Version | None = None,
    ) -> bool:
        """Change the state of a group, unless it differs from the expected one.

        All changes of a state are transactions: if some were plain writes, clocks would decide
        which change Cassandra keeps.

        Args:
            name: the group.
            expected: its state as it is known.
            state: the new one.
            reason: why it has not succeeded.
            last_write_time: the newest write time of the group; None if it has written nothing.
            is_cancelled: whether somebody wants all of it rolled back.
            version: the only version that may be changed; None for any version in that state.

        Returns:
            whether the group is in the new state.
        """
        now = clock.now()
        values = {
            "state": state,
            "reason": reason or None,
            "change_id": uuid4(),
            "run_id": self._run.run_id,
            "updated_at": now,
            "ended_at": now if state.has_ended else None,
            **({} if last_write_time is None else {"last_write_time": last_write_time}),
            **({"is_cancelled": True} if is_cancelled else {}),
        }
        key = {"stream": self.name, "id": name}
        change = {} if version is None else {"change_id": version.change_id}
        return conditional.compare_and_set(
            self._control, self._groups, key, values, expected={"state": expected, **change}
        )

    def win_over_earlier_runs(self, name: str) -> None:
        """Let this session's writes for a group win over those of a run that died.

        The clock of its machine may have been ahead of this one.
        """
        key = {"stream": self.name, "group_id": name}
        newest = (
            self._control.newest_write_time(self._events, "state", key),
            Deliveries(self._run, self.name).newest_write_time(name),
            LoadedLibraries(self._run, self.name).newest_write_time(),
        )
        self._control.write_times.pass_by(max(newest))
        self.images.win_over_earlier_runs(name)

    def events(self, name: str) -> dict[str, StoredEvent]:
        """Return the events of a group that have begun, by name."""
        rows = self._control.execute(
            "SELECT event, state, parameters, write_time, images, result, reason, asked_at"
            f" FROM {self._events} WHERE stream = ? AND group_id = ?",
            (self.name, name),
        )
        return {
            row["event"]: StoredEvent(
                EventState(row["state"]),
                as_json(row["parameters"] or "[]"),
                row["write_time"],
                row["images"] or 0,
                row["result"] or "[]",
                row["reason"] or "",
                row["asked_at"],
            )
            for row in rows
        }

    def begin(self, group: str, event: str, stored: StoredEvent) -> None:
        """Record that an event begins, with what was fixed for it."""
        self._write(
            group,
            event,
            {
                "state": stored.state,
                "parameters": json.dumps(stored.parameters),
                "write_time": stored.write_time,
                "images": stored.images,
            },
        )

    def end(self, group: str, event: str, stored: StoredEvent) -> None:
        """Record how an event has ended, or was undone."""
        values = {
            "state": stored.state,
            "write_time": stored.write_time,
            "reason": stored.reason or None,
            "asked_at": stored.asked_at,
            **({"result": stored.result} if stored.result != "[]" else {}),
        }
        self._write(group, event, values)

    def _write(self, group: str, event: str, values: Mapping[str, object]) -> None:
        row = {**values, "run_id": self._run.run_id, "updated_at": clock.now()}
        names = ", ".join(f"{name} = ?" for name in row)
        self._control.execute(
            f"UPDATE {self._events} SET {names} WHERE stream = ? AND group_id = ? AND event = ?",
            (*row.values(), self.name, group, event),
        )


def _place(row: Row) -> Place:
    return row["id"], row["sequence"]


def _stored(row: Row) -> StoredGroup:
    definition = GroupDefinition.stored(row["id"], row["definition"])
    state = GroupState(row["state"])
    return StoredGroup(
        *(row["id"], row["sequence"], state, definition, row["reason"] or ""),
        is_cancelled=bool(row["is_cancelled"]),
        change_id=row["change_id"],
    )
