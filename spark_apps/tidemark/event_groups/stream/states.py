"""The states of groups and events, and what is stored of an event."""

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
    """The state of a group; `rollback-failed` holds later groups that may touch its rows."""

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
        """Return whether runs are done with the group."""
        return self in (
            GroupState.DONE,
            GroupState.PARTLY_DONE,
            GroupState.ROLLED_BACK,
            GroupState.CANCELLED,
        )


class EventState(StrEnum):
    """The state of an event; without a row it is pending."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    ROLLBACK_ASKED = "rollback-asked"
    ROLLED_BACK = "rolled-back"
    ROLLBACK_FAILED = "rollback-failed"


class Version(NamedTuple):
    """A group until the next change of its state, even if it later has the same state again.

    Attributes:
        id: of the group.
        change_id: of the last change; None if the change is older than these ids.
    """

    id: str
    change_id: UUID | None


@dataclass(frozen=True)
class StoredGroup:
    """A group of the stream; `is_cancelled`: somebody wants all of it rolled back."""

    id: str
    sequence: int
    state: GroupState
    definition: GroupDefinition
    reason: str
    is_cancelled: bool = False
    change_id: UUID | None = None
    """See `Version`."""

    @property
    def version(self) -> Version:
        """Return the version, which every change of state replaces."""
        return Version(self.id, self.change_id)

    @property
    def takes_back_all(self) -> bool:
        """Return whether all events are undone if one fails, and not only that one."""
        return self.is_cancelled or self.definition.group.policy is FailurePolicy.ALL_FOR_ONE


@dataclass(frozen=True)
class StoredEvent:
    """An event of a group.

    Attributes:
        state: its state.
        parameters: of each statement that is sent: one, unless the event has `each`.
        write_time: of all statements, in microseconds; None before it begins, or without a write.
        images: the number of before-images.
        result: the rows of a select, a JSON array of objects by column.
        reason: why it has failed.
        asked_at: when an external service was first asked to undo it, in UTC without a zone.
    """

    state: EventState = EventState.PENDING
    parameters: Sequence[Mapping[str, Any]] = ()
    write_time: int | None = None
    images: int = 0
    result: str = "[]"
    reason: str = ""
    asked_at: datetime | None = None


class Cell(NamedTuple):
    """A value before an event: its bytes, write time in microseconds, expiry in milliseconds.

    A null has neither time; a value without TTL has no expiry.
    """

    value: Serialized | None
    written: int | None
    expires: int | None


NOTHING = Cell(None, None, None)


@dataclass(frozen=True)
class Image:
    """A before-image of a row.

    Attributes:
        statement: the index of the event's parameters that name the row.
        existed: whether the row existed.
        key: its primary key by column; empty if there was no row: the statement has the key.
        cells: by column.
    """

    statement: int
    existed: bool
    key: Mapping[str, Serialized]
    cells: Mapping[str, Cell]


def as_json(text: str) -> Any:
    """Parse JSON; numbers stay the texts that were written, which Cassandra accepts as well."""
    return json.loads(text, parse_int=str, parse_float=str)
