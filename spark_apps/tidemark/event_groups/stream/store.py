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
"""The most groups whose states are one request: they are small, and of as many partitions."""


Place = tuple[str, int]
"""The id of a group, and its sequence in the stream."""


class EndedGroup(NamedTuple):
    """A group that has ended, with the newest write time of its statements in microseconds."""

    id: str
    last_write_time: int


class Stream:
    """The groups of one stream."""

    def __init__(self, run: RunContext, name: str) -> None:
        """Bind to a run and the name of the stream."""
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

        A submission that died is ended by the same submission.

        Raises:
            InvalidInput: another group of that id is there.
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
        # Purge may delete one of this id that has ended, at any moment.
        while placed is None:
            conditional.compare_and_set(self._control, self._groups, key, values, expected=None)
            self.require_free(definition)
            placed = self._place(name)
        return placed

    def has(self, name: str) -> bool:
        """Tell whether a group has its place in the stream: a submission that died may lack it."""
        found = self._numbered(name)
        sequence = found[0]["sequence"] if found else None
        return sequence is not None and self._at(sequence) == name

    def require_free(self, definition: GroupDefinition) -> None:
        """Check that no other group of that id is there; the same one may be.

        Raises:
            InvalidInput: another one is.
        """
        name = definition.group.group
        found = self._control.execute(
            f"SELECT definition FROM {self._groups} WHERE stream = ? AND id = ?",
            (self.name, name),
        )
        # Not the texts: JSON, YAML and Python may have the same values in another order.
        if found and GroupDefinition.stored(name, found[0]["definition"]) != definition:
            raise InvalidInput(
                f"another group {name} was submitted before",
                where=f"stream {self.name}",
                do="give this one another id",
            )

    def _place(self, name: str) -> tuple[int, bool] | None:
        """Give a group its place, unless it has one; return the place and whether it is new.

        The row in the order comes last: a run that finds it finds the group's sequence as well, so
        it passes no group whose submission is under way.

        Returns:
            None if the group is not there any more.
        """
        key = {"stream": self.name, "id": name}
        while found := self._numbered(name):
            sequence, state = found[0]["sequence"], found[0]["state"]
            # Asked for first: a place before it is taken for good, by this group or by another.
            new = self.next_sequence()
            # Of one that has begun, or was cancelled, purge may have deleted the place already.
            if sequence is not None and (
                state != GroupState.SUBMITTED or self._at(sequence) == name
            ):
                return sequence, False
            expected = {"sequence": sequence, "state": state}
            if not conditional.compare_and_set(
                self._control, self._groups, key, {"sequence": new}, expected=expected
            ):
                # Somebody else submits, cancels or purges it at this moment.
                continue
            place = {"stream": self.name, "sequence": new}
            if conditional.compare_and_set(
                self._control, self._order, place, {"id": name}, expected=None
            ):
                return new, True
        return None

    def _numbered(self, name: str) -> list[Row]:
        """Return the number of a group, null if it has none yet, and its state, if it is there."""
        return self._control.execute(
            f"SELECT sequence, state FROM {self._groups} WHERE stream = ? AND id = ?",
            (self.name, name),
        )

    def _at(self, sequence: int) -> str | None:
        found = self._control.execute(
            f"SELECT id FROM {self._order} WHERE stream = ? AND sequence = ?",
            (self.name, sequence),
        )
        return found[0]["id"] if found else None

    def open(
        self,
        first: int | None = None,
        ended: Callable[[Sequence[EndedGroup]], None] = lambda groups: None,
    ) -> Iterator[StoredGroup]:
        """Yield the groups that have not ended, in their order, or those from a sequence on.

        Args:
            first: the sequence.
            ended: is told of the groups between them that have ended, before those after them.
        """
        places = self._control.stream(
            f"SELECT sequence, id FROM {self._order} WHERE stream = ? AND sequence >= ?",
            (self.name, self._open_from() if first is None else first),
            page=_PAGE,
        )
        while page := list(islice(places, _PAGE)):
            # Of two submissions of a group at once one leaves a place that is not its own.
            rows = self._not_ended([_place(row) for row in page], ended)
            yield from map(_stored, rows)

    def not_ended(
        self, places: Sequence[Place], ended: Callable[[Sequence[EndedGroup]], None]
    ) -> dict[Place, StoredGroup]:
        """Return those of some groups that have not ended.

        Args:
            places: of the groups.
            ended: called with the others, but for those that purge has deleted.
        """
        return {_place(row): _stored(row) for row in self._not_ended(places, ended)}

    def states(
        self, places: Sequence[Place], ended: Callable[[Sequence[EndedGroup]], None]
    ) -> dict[Place, GroupState]:
        """Return the states of those of some groups that have not ended; as `not_ended`."""
        names = [name for name, _ in places]
        answers = self._control.execute_many(
            f"SELECT id, sequence, state, last_write_time FROM {self._groups}"
            " WHERE stream = ? AND id IN ?",
            [(self.name, names[at : at + _STATES]) for at in range(0, len(names), _STATES)],
        )
        rows = self._open_of(answers, places, ended)
        return {_place(row): GroupState(row["state"]) for row in rows}

    def versions(self, names: Iterable[str]) -> set[Version]:
        """Return the versions of some groups, of those that are there."""
        answers = self._control.execute_many(
            f"SELECT id, change_id FROM {self._groups} WHERE stream = ? AND id = ?",
            [(self.name, name) for name in names],
        )
        return {Version(**row) for found in answers for row in found}

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
        own = frozenset(places)
        rows = [row for found in answers for row in found if _place(row) in own]
        rows.sort(key=itemgetter("sequence"))
        have_ended = [row for row in rows if GroupState(row["state"]).has_ended]
        ended([EndedGroup(row["id"], row["last_write_time"] or 0) for row in have_ended])
        return [row for row in rows if not GroupState(row["state"]).has_ended]

    def _open_from(self) -> int:
        found = self._control.execute(
            f"SELECT open_from FROM {self._order} WHERE stream = ? LIMIT 1", (self.name,)
        )
        return (found[0]["open_from"] or 0) if found else 0

    def last_write_time(self) -> int:
        """Return a write time after which no group has written that ended below `open_from`.

        What this session writes wins over it from then on: the clock of the machine that has
        written it may have been ahead of this one.
        """
        found = self._control.execute(
            f"SELECT last_write_time, writetime(last_write_time) AS written FROM {self._order}"
            " WHERE stream = ? LIMIT 1",
            (self.name,),
        )
        if not found:
            return 0
        self._control.write_times.pass_by(found[0]["written"] or 0)
        return found[0]["last_write_time"] or 0

    def move_open_from(self, sequence: int, last_write_time: int) -> None:
        """Record that all groups below a sequence have ended, and wrote no later than this."""
        self._control.execute(
            f"UPDATE {self._order} SET open_from = ?, last_write_time = ? WHERE stream = ?",
            (sequence, last_write_time, self.name),
        )

    def next_sequence(self) -> int:
        """Return the sequence behind the last group, also if purge has taken all of them."""
        found = self._control.execute(
            f"SELECT sequence, open_from FROM {self._order} WHERE stream = ?"
            " ORDER BY sequence DESC LIMIT 1",
            (self.name,),
        )
        if not found:
            return 1
        [row] = found
        return max((row["sequence"] or 0) + 1, row["open_from"] or 1)

    def group(self, name: str) -> StoredGroup | None:
        """Return a group; None if it is not there, or its submission has not ended."""
        found = self._control.execute(self._read, (self.name, name))
        return _stored(found[0]) if found and found[0]["sequence"] is not None else None

    def state_of(self, name: str) -> tuple[GroupState, str]:
        """Return the state of a group that was submitted, and its reason."""
        [row] = self._control.execute(
            f"SELECT state, reason FROM {self._groups} WHERE stream = ? AND id = ?",
            (self.name, name),
        )
        return GroupState(row["state"]), row["reason"] or ""

    def newest_write_time(self, name: str) -> int:
        """Return the newest write time of a group in microseconds; 0 if it has written nothing."""
        found = self._control.execute(self._read, (self.name, name))
        of_events = [event.write_time or 0 for event in self.events(name).values()]
        return max([*(row["last_write_time"] or 0 for row in found), *of_events], default=0)

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
        """Change the state of a group, unless it is another one than expected.

        All changes of a state are transactions: of a transaction and a plain write, clocks would
        decide which of them Cassandra keeps.

        Args:
            name: the group.
            expected: its state as it is known.
            state: the new one.
            reason: why it has not ended as a whole.
            last_write_time: the newest write time of the group; None if it has written nothing.
            is_cancelled: whether somebody wants all of it taken back.
            version: the only one that is to be changed; None if it may be any in that state.

        Returns:
            whether it is in the new state.
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
        as_read = {} if version is None else {"change_id": version.change_id}
        return conditional.compare_and_set(
            self._control, self._groups, key, values, expected={"state": expected, **as_read}
        )

    def win_over_earlier_runs(self, name: str) -> None:
        """Let what this session writes of a group win over what a run that died has written.

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
        found = self._control.execute(
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
            for row in found
        }

    def begin(self, group: str, event: str, begun: StoredEvent) -> None:
        """Write that an event begins, with what is fixed from then on."""
        self._write(
            group,
            event,
            {
                "state": begun.state,
                "parameters": json.dumps(begun.parameters),
                "write_time": begun.write_time,
                "images": begun.images,
            },
        )

    def end(self, group: str, event: str, ended: StoredEvent) -> None:
        """Write how an event has ended, or was taken back."""
        values = {
            "state": ended.state,
            "write_time": ended.write_time,
            "reason": ended.reason or None,
            "asked_at": ended.asked_at,
            **({"result": ended.result} if ended.result != "[]" else {}),
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
