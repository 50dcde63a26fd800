"""How far groups and their events are, and what is kept of an event."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from tidemark.cassandra.serialized import Serialized
from tidemark.event_groups.definition.file import GroupDefinition
from tidemark.event_groups.definition.model import FailurePolicy


class GroupState(StrEnum):
    """How far a group is. `rollback-failed` holds the groups behind it that may touch its rows."""

    SUBMITTED = "submitted"
    RUNNING = "running"
    ROLLING_BACK = "rolling-back"
    DONE = "done"
    PARTLY_DONE = "partly-done"
    ROLLED_BACK = "rolled-back"
    ROLLBACK_FAILED = "rollback-failed"
    CANCELLED = "cancelled"

    @property
    def has_ended(self) -> bool:
        """Return whether no run goes on with it."""
        return self in (
            GroupState.DONE,
            GroupState.PARTLY_DONE,
            GroupState.ROLLED_BACK,
            GroupState.CANCELLED,
        )


class EventState(StrEnum):
    """How far an event is; one without a row is pending."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    ROLLBACK_ASKED = "rollback-asked"
    ROLLED_BACK = "rolled-back"
    ROLLBACK_FAILED = "rollback-failed"


class Version(NamedTuple):
    """A group as it is until the next change of its state; it may come to the same state again.

    Attributes:
        id: of the group.
        change_id: of the change that has made it so; None if that was before there were such ids.
    """

    id: str
    change_id: UUID | None


@dataclass(frozen=True)
class StoredGroup:
    """A group of the stream; `is_cancelled` says that somebody wants all of it taken back."""

    id: str
    sequence: int
    state: GroupState
    definition: GroupDefinition
    reason: str
    is_cancelled: bool = False
    change_id: UUID | None = None
    """As of `Version`."""

    @property
    def version(self) -> Version:
        """Return what no later change leaves as it is."""
        return Version(self.id, self.change_id)

    @property
    def takes_back_all(self) -> bool:
        """Return whether all events are taken back if one fails, and not that one alone."""
        return self.is_cancelled or self.definition.group.policy is FailurePolicy.ALL_FOR_ONE


@dataclass(frozen=True)
class StoredEvent:
    """An event of a group.

    Attributes:
        state: how far it is.
        parameters: of each statement that is sent, one unless the event has `each`.
        write_time: of all of them, in microseconds; None before it has begun, and of no write.
        images: how many rows were kept as they were before it.
        result: the rows of a select, a JSON array of objects by column.
        reason: why it has failed.
        asked_at: since when somebody is asked to take it back, in UTC without a zone.
    """

    state: EventState = EventState.PENDING
    parameters: Sequence[Mapping[str, Any]] = ()
    write_time: int | None = None
    images: int = 0
    result: str = "[]"
    reason: str = ""
    asked_at: datetime | None = None


class Cell(NamedTuple):
    """A value before an event: its bytes, write time in microseconds, end in milliseconds.

    A null has neither; what stays for ever has no end.
    """

    value: Serialized | None
    written: int | None
    expires: int | None


NOTHING = Cell(None, None, None)


@dataclass(frozen=True)
class Image:
    """A row before an event.

    Attributes:
        statement: the number of the event's parameters that name it, from 0 on.
        existed: whether there was one.
        key: its primary key by column; empty if there was no row: it is that of the statement.
        cells: by column.
    """

    statement: int
    existed: bool
    key: Mapping[str, Serialized]
    cells: Mapping[str, Cell]


def as_json(text: str) -> Any:
    """Parse JSON; numbers stay as they are written, as texts, which Cassandra takes as well."""
    return json.loads(text, parse_int=str, parse_float=str)
