"""Which open groups a run may execute, and which it holds.

A run holds groups whose rollback has not ended, and groups that wait for them. It stores its report
of them, which the next run repeats if nothing has happened since. Otherwise the next run needs the
rows of these groups, which are stored too, so that it reads only the groups' states.
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
from tidemark.event_groups.definition.row_keys import GroupFootprint, RowKey
from tidemark.event_groups.stream.concurrency import Occupied, chunks
from tidemark.event_groups.stream.states import GroupState, StoredGroup, Version
from tidemark.event_groups.stream.store import EndedGroup, Place, Stream

MOST_EVENTS = 200
"""The maximum number of events in groups that run at the same time."""
MOST_HELD = 1000
"""The maximum number of held groups that a run reads: it executes nothing after them."""
_TOGETHER = 1000
"""The maximum number of groups that are read before the first of them runs."""
MAX_BYTES = 1024 * 1024
"""The maximum bytes that are stored for a stream: they are one cell in Cassandra."""
_WAITING = {GroupState.SUBMITTED, GroupState.ROLLBACK_FAILED}
"""The states in which a held group stays held until somebody changes a group's state by hand."""


class OpenGroup(NamedTuple):
    """A group that has not ended.

    Attributes:
        id: of the group.
        sequence: its place in the stream; after a purge, its id may get another place.
        state: its state.
        is_left: whether this run leaves it to the next, because it is not rolled back yet.
        stored: the group as this run has read it; None if only an earlier run has read it.
    """

    id: str
    sequence: int
    state: GroupState
    is_left: bool = False
    stored: StoredGroup | None = None

    @property
    def place(self) -> Place:
        """Return the permanent key of the group."""
        return self.id, self.sequence

    @property
    def is_stuck(self) -> bool:
        """Return whether others wait for the group, while it waits for none of them."""
        return self.is_left or self.state is GroupState.ROLLBACK_FAILED


def footprint_of(group: StoredGroup, *, is_left: bool = False) -> GroupFootprint[OpenGroup]:
    """Return the footprint of a group; one that is being rolled back reads nothing."""
    item = OpenGroup(group.id, group.sequence, group.state, is_left, group)
    reads = group.state in (GroupState.SUBMITTED, GroupState.RUNNING)
    return group.definition.footprint_as(item, reads=reads)


class Held:
    """The groups of a stream that cannot be executed, among those read so far."""

    def __init__(self) -> None:
        self.footprints: list[GroupFootprint[OpenGroup]] = []
        self._is_everything = False
        self._occupied = Occupied[OpenGroup]()

    def as_text(self, reached: int) -> str:
        """Return the groups and their rows as JSON; `reached` is that of `KnownGroups`."""
        groups = [
            (
                *(group.item.id, group.item.sequence, group.item.state, group.events),
                *(None if group.rows is None else sorted(group.rows), sorted(group.reads)),
            )
            for group in self.footprints
        ]
        return json.dumps({"reached": reached, "groups": groups})

    @property
    def groups(self) -> list[OpenGroup]:
        """Return the groups."""
        return [footprint.item for footprint in self.footprints]

    @property
    def are_enough(self) -> bool:
        """Return whether no later group can be executed, so that none need be read."""
        return self._is_everything or len(self.footprints) >= MOST_HELD

    def holder(self, group: GroupFootprint[OpenGroup]) -> OpenGroup | None:
        """Return why a group cannot be executed: itself if it is not rolled back, or another one.

        In this case the group is held. Groups must be given in the order of the stream.
        """
        obstacle = group.item if group.item.is_stuck else self._occupied.meeting(group)
        if obstacle is not None:
            self.take([group])
        return obstacle

    def take(self, groups: Sequence[GroupFootprint[OpenGroup]]) -> None:
        """Hold groups that are known not to be executable."""
        self.footprints += groups
        self._is_everything |= any(group.rows is None for group in groups)
        for group in groups:
            self._occupied.add(group)


class KnownGroups(NamedTuple):
    """What is known of a stream before it is read.

    Attributes:
        groups: those that an earlier run has held and that have not ended, in their order.
        reached: the sequence up to which all other groups have ended; None if nothing is known.
    """

    groups: Sequence[GroupFootprint[OpenGroup]] = ()
    reached: int | None = None


class Waiting(NamedTuple):
    """The groups that wait in a stream at the end of a run.

    Attributes:
        groups: the number of the groups read that wait for others.
        stuck: the id of one of these others; None if there is none.
        reached: the sequence up to which groups were read.
        is_enough: whether no later group can be executed.
    """

    groups: int
    stuck: str | None
    reached: int
    is_enough: bool

    def in_all(self, next_sequence: int) -> int:
        """Return the number of groups that wait before a sequence, including unread groups."""
        return self.groups + max(next_sequence - 1 - self.reached, 0) * self.is_enough


def parse_known(text: str) -> KnownGroups:
    """Parse what `Held.as_text` has written."""
    stored = json.loads(text)
    groups = [
        GroupFootprint(
            OpenGroup(name, sequence, GroupState(state)),
            events,
            None if rows is None else _keys(rows),
            _keys(reads),
        )
        for name, sequence, state, events, rows, reads in stored["groups"]
    ]
    return KnownGroups(groups, stored["reached"])


def _keys(rows: list[tuple[str, list[tuple[str, str]]]]) -> frozenset[RowKey]:
    return frozenset((name, tuple((column, value) for column, value in key)) for name, key in rows)


class HeldGroups:
    """Stores the groups of one stream that runs cannot execute."""

    def __init__(self, run: RunContext, stream: Stream) -> None:
        self._control, self._run_id, self._stream = run.control, run.run_id, stream
        self._table = table(run.settings.keyspace, "event_group_held")
        self._last_kept: UUID | None = None
        self._text: str | None = None
        self._changes: set[Version] = set()

    def note_change(self, version: Version) -> None:
        """Note that the state of a group is about to be changed by hand.

        The note precedes the change, and only this version may be changed: a run deletes the note
        once the group has a later version.
        """
        self._control.execute(
            f"UPDATE {self._table} SET changes = changes + ? WHERE stream = ?",
            ({version}, self._stream.name),
        )

    def unchanged(self, next_sequence: int) -> Waiting | None:
        """Return what waited at the end of the last run; None if this one may have work.

        A run calls this before it reads any group; `next_sequence` is that of the next submission.
        """
        row = self._read("waiting, changes, change_id")
        self._last_kept = row.get("change_id")
        self._changes = {Version(*version) for version in row.get("changes") or ()}
        if row.get("waiting") is None or self._changes:
            return None
        waiting = Waiting(**json.loads(row["waiting"]))
        has_new = next_sequence != waiting.reached + 1
        return None if has_new and not waiting.is_enough else waiting

    def read(self, ended: Callable[[Sequence[EndedGroup]], None]) -> KnownGroups:
        """Return what the last run has stored, after reading groups again whose state changed.

        Somebody may have retried, settled or cancelled them, or the last run may have executed
        them and died. `ended` is called with those that have ended.
        """
        # Read before the states: a change that is made later stays noted.
        self._changes -= self._stream.versions({version.id for version in self._changes})
        self._text = self._read("held_groups").get("held_groups")
        if self._text is None:
            return KnownGroups()
        stored = parse_known(self._text)
        states = self._stream.states([group.item.place for group in stored.groups], ended)
        unchanged = {
            group.item.place: group
            for group in stored.groups
            if states.get(group.item.place) is group.item.state
        }
        changed = [place for place in states if place not in unchanged]
        reread = {
            place: footprint_of(group)
            for place, group in self._stream.not_ended(changed, ended).items()
        }
        groups = sorted((unchanged | reread).values(), key=lambda group: group.item.sequence)
        return KnownGroups(groups, stored.reached)

    def kept(self) -> KnownGroups:
        """Return what the last run has kept, as it was then."""
        text = self._read("held_groups").get("held_groups")
        return KnownGroups() if text is None else parse_known(text)

    def _read(self, columns: str) -> Row:
        rows = self._control.execute(
            f"SELECT {columns} FROM {self._table} WHERE stream = ?", (self._stream.name,)
        )
        return rows[0] if rows else {}

    def keep(self, held: Held, waiting: Waiting) -> None:
        """Store the groups that cannot be executed, and what is reported of them.

        Nothing is stored if another run has stored something since this one began: one of the two
        has lost the lock, and has not noticed yet.
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
    """The open groups of a stream; a run reads each of them once."""

    def __init__(
        self,
        stream: Stream,
        known: KnownGroups,
        next_sequence: int,
        ended: Callable[[Sequence[EndedGroup]], None] = lambda groups: None,
    ) -> None:
        """Start with what is known.

        `next_sequence` was that of the next submission before anything was read; `ended` is called
        with ended groups that lie between open ones.
        """
        self._stream, self._ended = stream, ended
        self.held = Held()
        self._known, self._reached = known.groups, known.reached
        self._last = next_sequence - 1
        self._may_run: Sequence[GroupFootprint[OpenGroup]] = ()

    def execute(self, execute: Callable[[list[StoredGroup]], list[StoredGroup]]) -> None:
        """Execute the groups that may run, in their order.

        `execute` executes groups at the same time, and returns those that have not ended, in their
        new states.
        """
        while parts := self.next_parts():
            for number, part in enumerate(parts, start=1):
                groups = self._loaded(part)
                if groups and (stuck := execute(groups)):
                    self._put_back(stuck, chain.from_iterable(parts[number:]))
                    break

    def next_parts(self) -> list[Sequence[GroupFootprint[OpenGroup]]]:
        """Return the next groups that may run; those of a part may run at the same time."""
        groups, self._may_run = [*self._may_run], ()
        groups += [group for group in self._known if self.held.holder(group) is None]
        self._known = ()
        if not groups and not self.held.are_enough:
            groups = self._read()
        return chunks(groups, MOST_EVENTS)

    def _read(self) -> list[GroupFootprint[OpenGroup]]:
        footprints = []
        first = None if self._reached is None else self._reached + 1
        for group in self._stream.open(first, self._ended):
            self._reached = group.sequence
            footprint = footprint_of(group)
            if self.held.holder(footprint) is None:
                footprints.append(footprint)
            if len(footprints) == _TOGETHER or self.held.are_enough:
                return footprints
        self._reached = max(self._reached or 0, self._last)
        return footprints

    def _loaded(self, part: Sequence[GroupFootprint[OpenGroup]]) -> list[StoredGroup]:
        """Return the groups of a part, after reading those that only an earlier run has read."""
        missing = [group.item.place for group in part if group.item.stored is None]
        read = self._stream.not_ended(missing, self._ended)
        groups = (group.item.stored or read.get(group.item.place) for group in part)
        return [group for group in groups if group is not None]

    def _put_back(
        self, stuck: Sequence[StoredGroup], later: Iterable[GroupFootprint[OpenGroup]]
    ) -> None:
        """Hold groups that are stuck, and the later groups that collide with them."""
        newly_held = Held()
        for group in stuck:
            newly_held.holder(footprint_of(group, is_left=True))
        # Not compared with all held groups: some of them come after the groups in `later`.
        self._may_run = [group for group in later if newly_held.holder(group) is None]
        self.held.take(newly_held.footprints)

    def waiting(self) -> Waiting:
        """Return what waits after everything that may run was executed."""
        stuck = [group.id for group in self.held.groups if group.is_stuck]
        return Waiting(
            len(self.held.groups) - len(stuck),
            next(iter(stuck), None),
            self._reached or 0,
            self.held.are_enough,
        )
