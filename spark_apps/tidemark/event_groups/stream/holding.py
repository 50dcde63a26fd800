"""Which open groups a run may execute, and which it holds.

Held are those that are not rolled back, and what waits for them. A run keeps what it reports of
them, which the next one reports as well if nothing has happened since. Otherwise that one needs
the rows of these groups, which are also kept, and reads only their states.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple
from uuid import UUID, uuid4

from tidemark import clock
from tidemark.cassandra import conditional
from tidemark.cassandra.control import Row
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.event_groups.definition.row_keys import RowKey
from tidemark.event_groups.stream.chunks import Extent, Occupied, chunks
from tidemark.event_groups.stream.states import GroupState, StoredGroup, Version
from tidemark.event_groups.stream.store import EndedGroup, Place, Stream

MOST_EVENTS = 200
"""The most events of groups that run at the same time."""
MOST_HELD = 1000
"""The most groups that a run looks at that it cannot execute: it executes nothing after them."""
_TOGETHER = 1000
"""The most groups that are read before the first of them runs."""
MAX_BYTES = 1024 * 1024
"""The most bytes that are kept of a stream: they are one cell of Cassandra's."""
_WAITING = {GroupState.SUBMITTED, GroupState.ROLLBACK_FAILED}
"""The states in which a held group stays held until somebody changes the state of one by hand."""


class OpenGroup(NamedTuple):
    """A group that has not ended.

    Attributes:
        id: of the group.
        sequence: its place in the stream; an id that purge has freed may have another one later.
        state: how far it is.
        is_left: whether this run leaves it to the next, since it is not rolled back yet.
        stored: the group as this run has read it; None if only an earlier run has.
    """

    id: str
    sequence: int
    state: GroupState
    is_left: bool = False
    stored: StoredGroup | None = None

    @property
    def place(self) -> Place:
        """Return what names it for ever."""
        return self.id, self.sequence

    @property
    def is_stuck(self) -> bool:
        """Return whether others wait for it, and it for none of them."""
        return self.is_left or self.state is GroupState.ROLLBACK_FAILED


def extent_of(group: StoredGroup, *, is_left: bool = False) -> Extent[OpenGroup]:
    """Return a group with its size and rows; one that is being rolled back reads nothing."""
    item = OpenGroup(group.id, group.sequence, group.state, is_left, group)
    reads = group.state in (GroupState.SUBMITTED, GroupState.RUNNING)
    return group.definition.extent_as(item, reads=reads)


class Held:
    """The groups of a stream that cannot be executed, as far as they were read."""

    def __init__(self) -> None:
        """Begin without any."""
        self.extents: list[Extent[OpenGroup]] = []
        self._is_everything = False
        self._occupied = Occupied[OpenGroup]()

    def as_text(self, reached: int) -> str:
        """Return the groups and their rows as JSON; `reached` is as of `Known`."""
        groups = [
            (
                *(one.item.id, one.item.sequence, one.item.state, one.events),
                *(None if one.rows is None else sorted(one.rows), sorted(one.reads)),
            )
            for one in self.extents
        ]
        return json.dumps({"reached": reached, "groups": groups})

    @property
    def groups(self) -> list[OpenGroup]:
        """Return the groups."""
        return [extent.item for extent in self.extents]

    @property
    def are_enough(self) -> bool:
        """Return whether no group after them is executed, so that none need be read."""
        return self._is_everything or len(self.extents) >= MOST_HELD

    def holder(self, group: Extent[OpenGroup]) -> OpenGroup | None:
        """Return why a group cannot be executed: itself if it is not rolled back, or another one.

        One that is held is held from then on. Groups are given in the order of the stream.
        """
        found = group.item if group.item.is_stuck else self._occupied.meeting(group)
        if found is not None:
            self.take([group])
        return found

    def take(self, groups: Sequence[Extent[OpenGroup]]) -> None:
        """Hold groups of which it is known that they cannot be executed."""
        self.extents += groups
        self._is_everything |= any(group.rows is None for group in groups)
        for group in groups:
            self._occupied.add(group)


class Known(NamedTuple):
    """What is known before a stream is read.

    Attributes:
        groups: those that an earlier run has held and that have not ended, in their order.
        reached: the sequence up to which all other groups have ended; None if nothing is known.
    """

    groups: Sequence[Extent[OpenGroup]] = ()
    reached: int | None = None


class Waiting(NamedTuple):
    """What waits in a stream at the end of a run.

    Attributes:
        groups: how many of the groups that were read wait for others.
        stuck: the id of one of these others; None if there is none.
        reached: the sequence up to which groups were read.
        is_enough: whether no group after these can be executed.
    """

    groups: int
    stuck: str | None
    reached: int
    is_enough: bool

    def in_all(self, next_sequence: int) -> int:
        """Return how many groups wait before a sequence, also those that no run has read."""
        return self.groups + max(next_sequence - 1 - self.reached, 0) * self.is_enough


def as_known(text: str) -> Known:
    """Return what `Held.as_text` has written."""
    kept = json.loads(text)
    groups = [
        Extent(
            OpenGroup(name, sequence, GroupState(state)),
            events,
            None if rows is None else _keys(rows),
            _keys(reads),
        )
        for name, sequence, state, events, rows, reads in kept["groups"]
    ]
    return Known(groups, kept["reached"])


def _keys(rows: list[tuple[str, list[tuple[str, str]]]]) -> frozenset[RowKey]:
    return frozenset((name, tuple((column, value) for column, value in key)) for name, key in rows)


class HeldGroups:
    """What runs keep of the groups of one stream that they cannot execute."""

    def __init__(self, run: RunContext, stream: Stream) -> None:
        """Bind to a run and a stream."""
        self._control, self._run_id, self._stream = run.control, run.run_id, stream
        self._table = table(run.settings.keyspace, "event_group_held")
        self._last_kept: UUID | None = None
        self._text: str | None = None
        self._changes: set[Version] = set()

    def note_change(self, version: Version) -> None:
        """Note that the state of a group is about to be changed by hand.

        It comes before the change, which must not be made to a later version: a run deletes the
        note once the group has one.
        """
        self._control.execute(
            f"UPDATE {self._table} SET changes = changes + ? WHERE stream = ?",
            ({version}, self._stream.name),
        )

    def unchanged(self, next_sequence: int) -> Waiting | None:
        """Return what waited at the end of the last run; None if this one may have work.

        A run asks for it first: before it reads any group.

        Args:
            next_sequence: of the group that is submitted next.
        """
        found = self._read("waiting, changes, change_id")
        self._last_kept = found.get("change_id")
        self._changes = {Version(*one) for one in found.get("changes") or ()}
        if found.get("waiting") is None or self._changes:
            return None
        waiting = Waiting(**json.loads(found["waiting"]))
        has_new = next_sequence != waiting.reached + 1
        return None if has_new and not waiting.is_enough else waiting

    def read(self, ended: Callable[[Sequence[EndedGroup]], None]) -> Known:
        """Return what the last run has kept; read again are only groups of another state now.

        Somebody may have retried, settled or cancelled them; the last run may have executed them
        and died.

        Args:
            ended: called with those that have ended.
        """
        # Before their states: a change that is not made by now stays noted.
        self._changes -= self._stream.versions({one.id for one in self._changes})
        self._text = self._read("held_groups").get("held_groups")
        if self._text is None:
            return Known()
        kept = as_known(self._text)
        states = self._stream.states([one.item.place for one in kept.groups], ended)
        as_kept = {
            one.item.place: one
            for one in kept.groups
            if states.get(one.item.place) is one.item.state
        }
        changed = [place for place in states if place not in as_kept]
        read = {
            place: extent_of(group)
            for place, group in self._stream.not_ended(changed, ended).items()
        }
        groups = sorted((as_kept | read).values(), key=lambda one: one.item.sequence)
        return Known(groups, kept.reached)

    def kept(self) -> Known:
        """Return what the last run has kept, as it was then."""
        text = self._read("held_groups").get("held_groups")
        return Known() if text is None else as_known(text)

    def _read(self, columns: str) -> Row:
        found = self._control.execute(
            f"SELECT {columns} FROM {self._table} WHERE stream = ?", (self._stream.name,)
        )
        return found[0] if found else {}

    def keep(self, held: Held, waiting: Waiting) -> None:
        """Keep the groups that cannot be executed, and what is reported of them.

        It is left out if another run has kept something since this one began: one of the two has
        lost the lock, and does not know it yet.
        """
        text = held.as_text(waiting.reached) if held.groups else None
        if text is not None and len(text) > MAX_BYTES:
            text = None
        all_wait = all(group.state in _WAITING for group in held.groups)
        key = {"stream": self._stream.name}
        values = {
            **({} if text == self._text else {"held_groups": text}),
            "waiting": json.dumps(waiting._asdict()) if all_wait else None,
            "change_id": uuid4(),
            "run_id": self._run_id,
            "updated_at": clock.now(),
        }
        is_kept = conditional.compare_and_set(
            self._control, self._table, key, values, expected={"change_id": self._last_kept}
        )
        if is_kept and self._changes:
            self._control.execute(
                f"UPDATE {self._table} SET changes = changes - ? WHERE stream = ?",
                (self._changes, self._stream.name),
            )


class OpenGroups:
    """The open groups of a stream, of which a run reads each once."""

    def __init__(
        self,
        stream: Stream,
        known: Known,
        next_sequence: int,
        ended: Callable[[Sequence[EndedGroup]], None] = lambda groups: None,
    ) -> None:
        """Begin with what is known.

        Args:
            stream: the stream.
            known: what is known of it.
            next_sequence: of the group that was submitted next when nothing had been read yet.
            ended: called with groups between those that are open that have ended.
        """
        self._stream, self._ended = stream, ended
        self.held = Held()
        self._known, self._reached = known.groups, known.reached
        self._last = next_sequence - 1
        self._may_run: Sequence[Extent[OpenGroup]] = ()

    def execute(self, execute: Callable[[list[StoredGroup]], list[StoredGroup]]) -> None:
        """Execute the groups that may run, in their order.

        Args:
            execute: executes groups at the same time; returns those that have not ended, as they
                are then.
        """
        while parts := self.next_parts():
            for number, part in enumerate(parts, start=1):
                groups = self._loaded(part)
                if groups and (stuck := execute(groups)):
                    self._put_back(stuck, chain.from_iterable(parts[number:]))
                    break

    def next_parts(self) -> list[Sequence[Extent[OpenGroup]]]:
        """Return the next groups that may run, those of a part at the same time."""
        found, self._may_run = [*self._may_run], ()
        found += [group for group in self._known if self.held.holder(group) is None]
        self._known = ()
        if not found and not self.held.are_enough:
            found = self._read()
        return chunks(found, MOST_EVENTS)

    def _read(self) -> list[Extent[OpenGroup]]:
        found = []
        first = None if self._reached is None else self._reached + 1
        for group in self._stream.open(first, self._ended):
            self._reached = group.sequence
            extent = extent_of(group)
            if self.held.holder(extent) is None:
                found.append(extent)
            if len(found) == _TOGETHER or self.held.are_enough:
                return found
        self._reached = max(self._reached or 0, self._last)
        return found

    def _loaded(self, part: Sequence[Extent[OpenGroup]]) -> list[StoredGroup]:
        """Return the groups of a part; those that only an earlier run has read are read now."""
        missing = [one.item.place for one in part if one.item.stored is None]
        read = self._stream.not_ended(missing, self._ended)
        groups = (one.item.stored or read.get(one.item.place) for one in part)
        return [group for group in groups if group is not None]

    def _put_back(self, stuck: Sequence[StoredGroup], later: Iterable[Extent[OpenGroup]]) -> None:
        """Hold groups, and what collides with them of those that were found after them."""
        newly = Held()
        for group in stuck:
            newly.holder(extent_of(group, is_left=True))
        # Not compared with all that are held: of these some come after them.
        self._may_run = [group for group in later if newly.holder(group) is None]
        self.held.take(newly.extents)

    def waiting(self) -> Waiting:
        """Return what waits once everything is executed that may be."""
        stuck = [group.id for group in self.held.groups if group.is_stuck]
        return Waiting(
            len(self.held.groups) - len(stuck),
            next(iter(stuck), None),
            self._reached or 0,
            self.held.are_enough,
        )
