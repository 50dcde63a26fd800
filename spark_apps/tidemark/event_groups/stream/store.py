"""The rows of groups, their events and before-images."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from tidemark import clock
from tidemark.cassandra import conditional
from tidemark.cassandra.control import Row
from tidemark.cassandra.schema import table
from tidemark.cassandra.serialized import Serialized
from tidemark.context import RunContext
from tidemark.errors import InvalidInput, WrongData
from tidemark.event_groups.definition.file import Definition
from tidemark.event_groups.definition.model import Group
from tidemark.event_groups.stream.states import (
    Cell,
    EventState,
    GroupState,
    Image,
    StoredEvent,
    StoredGroup,
    as_json,
)

_PAGE = 200
_HEXADECIMAL = "0x"


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
        self._groups, self._order, self._events, self._images, self._sizes = (
            table(run.settings.keyspace, name)
            for name in (
                *("event_group", "event_group_order", "group_event", "before_image"),
                "named_result_size",
            )
        )
        self._read = (
            "SELECT id, sequence, state, definition, reason, is_cancelled, last_write_time"
            f" FROM {self._groups}"
            " WHERE stream = ? AND id = ?"
        )

    def submit(self, definition: Definition) -> tuple[int, bool]:
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
            "run_id": self._run.run_id,
            "submitted_at": clock.now(),
        }
        conditional.compare_and_set(self._control, self._groups, key, values, expected=None)
        [found] = self._control.execute(
            f"SELECT sequence, definition FROM {self._groups} WHERE stream = ? AND id = ?",
            (self.name, name),
        )
        # Not the texts: JSON, YAML and Python may have the same values in another order.
        if Group.model_validate_json(found["definition"]) != definition.group:
            raise InvalidInput(
                f"another group {name} was submitted before",
                where=f"stream {self.name}",
                do="give this one another id",
            )
        return self._place(name, found["sequence"])

    def _place(self, name: str, sequence: int | None) -> tuple[int, bool]:
        """Give a group its place, unless it has one; return the place and whether it is new.

        The row in the order comes last: a run that finds it finds the group's sequence as well, so
        it passes no group whose submission is under way.
        """
        key = {"stream": self.name, "id": name}
        while True:
            if sequence is not None and self._at(sequence) == name:
                return sequence, False
            new = self.next_sequence()
            if not conditional.compare_and_set(
                self._control,
                self._groups,
                key,
                {"sequence": new},
                expected={"sequence": sequence},
            ):
                # The same group is submitted by somebody else at this moment.
                [found] = self._control.execute(
                    f"SELECT sequence FROM {self._groups} WHERE stream = ? AND id = ?",
                    (self.name, name),
                )
                sequence = found["sequence"]
                continue
            sequence = new
            place = {"stream": self.name, "sequence": new}
            if conditional.compare_and_set(
                self._control, self._order, place, {"id": name}, expected=None
            ):
                return new, True

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
            keys = [(self.name, row["id"]) for row in page]
            answers = self._control.execute_many(self._read, keys)
            # Of two submissions of a group at once one leaves a place that is not its own.
            rows = [
                answer[0]
                for place, answer in zip(page, answers, strict=True)
                if answer and answer[0]["sequence"] == place["sequence"]
            ]
            ended(
                [
                    EndedGroup(row["id"], row["last_write_time"] or 0)
                    for row in rows
                    if GroupState(row["state"]).has_ended
                ]
            )
            yield from (_stored(row) for row in rows if not GroupState(row["state"]).has_ended)

    def _open_from(self) -> int:
        found = self._control.execute(
            f"SELECT open_from FROM {self._order} WHERE stream = ? LIMIT 1", (self.name,)
        )
        return (found[0]["open_from"] or 0) if found else 0

    def count_after(self, sequence: int) -> int:
        """Return how many groups were submitted after a sequence."""
        [row] = self._control.execute(
            f"SELECT count(*) AS number FROM {self._order} WHERE stream = ? AND sequence > ?",
            (self.name, sequence),
        )
        return int(row["number"])

    def last_write_time(self) -> int:
        """Return a write time after which no group has written that ended below `open_from`."""
        found = self._control.execute(
            f"SELECT last_write_time FROM {self._order} WHERE stream = ? LIMIT 1", (self.name,)
        )
        return (found[0]["last_write_time"] or 0) if found else 0

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

    def set_state(
        self,
        name: str,
        expected: GroupState,
        state: GroupState,
        reason: str = "",
        *,
        last_write_time: int | None = None,
        is_cancelled: bool = False,
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

        Returns:
            whether it is in the new state.
        """
        now = clock.now()
        values = {
            "state": state,
            "reason": reason or None,
            "run_id": self._run.run_id,
            "updated_at": now,
            "ended_at": now if state.has_ended else None,
            **({} if last_write_time is None else {"last_write_time": last_write_time}),
            **({"is_cancelled": True} if is_cancelled else {}),
        }
        key = {"stream": self.name, "id": name}
        return conditional.compare_and_set(
            self._control, self._groups, key, values, expected={"state": expected}
        )

    def win_over_earlier_runs(self, name: str) -> None:
        """Let what this session writes of a group win over what a run that died has written.

        The clock of its machine may have been ahead of this one.
        """
        for of_group, column in (
            (self._events, "state"),
            (self._images, "existed"),
            (self._sizes, "row_count"),
        ):
            [row] = self._control.execute(
                f"SELECT max(writetime({column})) AS newest FROM {of_group}"
                " WHERE stream = ? AND group_id = ?",
                (self.name, name),
            )
            self._control.write_times.pass_by(row["newest"] or 0)

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

    def keep_images(self, group: str, event: str, images: Iterable[Image]) -> None:
        """Write the rows as they are before an event; more of a run that died may be left."""
        self._control.execute_many(
            f"INSERT INTO {self._images} (stream, group_id, event, number, statement, existed,"
            " row_key, cells) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    *(self.name, group, event, number, one.statement, one.existed),
                    json.dumps({name: _digits(part) for name, part in one.key.items()}),
                    json.dumps(
                        {
                            name: (_digits(cell.value), cell.written, cell.expires)
                            for name, cell in one.cells.items()
                        }
                    ),
                )
                for number, one in enumerate(images)
            ],
        )

    def forget_images(self, group: str) -> None:
        """Delete the rows as they were before the events of a group."""
        self._control.execute(
            f"DELETE FROM {self._images} WHERE stream = ? AND group_id = ?", (self.name, group)
        )

    def has_images(self, groups: Sequence[str]) -> list[str]:
        """Return those of the groups of which rows are kept as they were."""
        found = self._control.execute_many(
            f"SELECT group_id FROM {self._images} WHERE stream = ? AND group_id = ? LIMIT 1",
            [(self.name, group) for group in groups],
        )
        return [rows[0]["group_id"] for rows in found if rows]

    def images(self, group: str, event: str, count: int) -> list[Image]:
        """Return the rows as they were before an event; `count` is how many it has kept."""
        found = self._control.execute(
            f"SELECT statement, existed, row_key, cells FROM {self._images}"
            " WHERE stream = ? AND group_id = ? AND event = ? AND number < ?",
            (self.name, group, event, count),
        )
        return [
            Image(
                row["statement"],
                row["existed"],
                {
                    name: _bytes(part) or Serialized()
                    for name, part in json.loads(row["row_key"]).items()
                },
                {
                    name: Cell(_bytes(value), written, expires)
                    for name, (value, written, expires) in json.loads(row["cells"]).items()
                },
            )
            for row in found
        ]


def _digits(value: Serialized | None) -> str | None:
    return None if value is None else _HEXADECIMAL + value.hex()


def _bytes(digits: str | None) -> Serialized | None:
    if digits is None:
        return None
    if not digits.startswith(_HEXADECIMAL):
        raise WrongData(
            "rows before its events were kept by an older version, as JSON",
            do="put them back by hand, see the table before_image, and settle the group",
        )
    return Serialized.fromhex(digits.removeprefix(_HEXADECIMAL))


def _stored(row: Row) -> StoredGroup:
    definition = Definition(Group.model_validate_json(row["definition"]))
    state = GroupState(row["state"])
    return StoredGroup(
        *(row["id"], row["sequence"], state, definition, row["reason"] or ""),
        is_cancelled=bool(row["is_cancelled"]),
    )
