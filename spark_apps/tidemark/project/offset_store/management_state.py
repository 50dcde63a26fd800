"""Stores manual changes and the last write time of each projection, in one row per projection.

The row also says whether there may be quarantined events, and which states of mode fold are void.
Each flag has its own writer. A change states the value that it replaces, so that of two concurrent
changes one fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidemark import clock
from tidemark.cassandra.conditional import compare_and_set
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.project.definition.model import Definition
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.settings import Settings

TABLE = "projection_management"


@dataclass(frozen=True)
class PauseState:
    """Whether a projection is paused, and since when by whom."""

    paused: bool | None = None
    paused_by: str = ""
    paused_at: datetime | None = None

    def __str__(self) -> str:
        """Return the text for reports."""
        if self.paused is None:
            return "never paused"
        action = "paused" if self.paused else "resumed"
        if self.paused_at is None:
            return action
        return f"{action} {self.paused_at:%Y-%m-%d %H:%M} UTC by {self.paused_by}"


@dataclass(frozen=True)
class Revision:
    """The number of manual changes of a projection's offsets, and the last of them."""

    revision: int = 0
    operation: str = ""
    changed_by: str = ""
    changed_at: datetime | None = None

    def __str__(self) -> str:
        """Return the text for reports."""
        if self.changed_at is None:
            return "never changed by hand"
        return f"{self.operation} {self.changed_at:%Y-%m-%d %H:%M} UTC by {self.changed_by}"


def pause_state(store: OffsetStore) -> PauseState:
    """Read whether a projection is paused, with all versions of a blue/green projection."""
    row = _row(store, store.name_in_journal, "paused, paused_by, paused_at")
    if row is None:
        return PauseState()
    return PauseState(row["paused"], row["paused_by"] or "", row["paused_at"])


def set_paused(store: OffsetStore, before: PauseState, *, paused: bool, owner: str) -> bool:
    """Pause or resume a projection; False if its state has changed since `before` was read."""
    return _change(
        store,
        store.name_in_journal,
        {"paused": paused, "paused_by": owner, "paused_at": clock.now()},
        expected={"paused": before.paused},
    )


def unpaused(
    run: RunContext, definitions: Sequence[Definition], report: Callable[[str], None]
) -> list[Definition]:
    """Return the definitions that are not paused; `report` gets a line for each paused one."""
    not_paused = []
    for definition in definitions:
        state = pause_state(OffsetStore.of(run, definition))
        if state.paused:
            report(f"{definition.name}: left out, {state}; `project.py resume {definition.name}`")
        else:
            not_paused.append(definition)
    return not_paused


def revision(store: OffsetStore) -> Revision:
    """Read how often the offsets of a projection were changed by hand."""
    row = _row(store, store.subject, "revision, operation, changed_by, changed_at")
    if row is None or row["revision"] is None:
        return Revision()
    return Revision(**row)


def raise_revision(store: OffsetStore, before: Revision, *, operation: str, owner: str) -> bool:
    """Count a manual change; False if there was another change since `before` was read."""
    return _change(
        store,
        store.subject,
        {
            "revision": before.revision + 1,
            "operation": operation,
            "changed_by": owner,
            "changed_at": clock.now(),
        },
        expected={"revision": before.revision or None},
    )


def last_write_time(control: Control, settings: Settings, subject: str) -> int:
    """Read the newest write timestamp (microseconds) of a subject's results; 0 without one.

    Mode bucket raises it before the rows of a time bucket are written, and again afterwards.
    """
    rows = control.execute(
        f"SELECT last_write_time FROM {table(settings.keyspace, TABLE)} WHERE projection = ?",
        (subject,),
    )
    return rows[0]["last_write_time"] or 0 if rows else 0


def next_write_time(store: OffsetStore) -> int:
    """Return a write timestamp (microseconds) above all earlier ones of the projection.

    It is stored before it is used, and grows even if the clock is set back or a run dies.
    """
    columns = "last_write_time, WRITETIME(last_write_time) AS stored_at"
    row = _row(store, store.subject, columns)
    last = max(value or 0 for value in row.values()) if row else 0
    write_time = max(clock.now_micros(), last + 2)
    # Stored with the time of this clock, a value from a faster clock would win over it.
    store.control.execute(
        f"INSERT INTO {store.table(TABLE)} (projection, last_write_time)"
        " VALUES (?, ?) USING TIMESTAMP ?",
        (store.subject, write_time, write_time),
    )
    return write_time


def note_quarantined(store: OffsetStore) -> None:
    """Record that the projection has quarantined events, before they are written."""
    store.control.execute(
        f"INSERT INTO {store.table(TABLE)} (projection, quarantined_at) VALUES (?, ?)",
        (store.name_in_journal, clock.now()),
    )


def has_quarantined(store: OffsetStore) -> bool:
    """Return whether any version of the projection has ever quarantined an event.

    Reading the quarantine itself would pass the tombstones of all events that have left it.
    """
    row = _row(store, store.name_in_journal, "quarantined_at")
    return row is not None and row["quarantined_at"] is not None


def void_states(store: OffsetStore) -> None:
    """Make runs compute all stored states of mode fold again; call after `raise_revision`."""
    store.control.execute(
        f"INSERT INTO {store.table(TABLE)} (projection, states_from) VALUES (?, ?)",
        (store.subject, revision(store).revision),
    )


def states_from(store: OffsetStore) -> int:
    """Read the revision from which states of mode fold are valid; 0 if all are."""
    row = _row(store, store.subject, "states_from")
    return 0 if row is None else row["states_from"] or 0


def forget(store: OffsetStore) -> None:
    """Delete the row of a version that is dropped."""
    store.control.execute(
        f"DELETE FROM {store.table(TABLE)} WHERE projection = ?", (store.subject,)
    )


def _row(store: OffsetStore, projection: str, columns: str) -> Row | None:
    rows = store.control.execute(
        f"SELECT {columns} FROM {store.table(TABLE)} WHERE projection = ?", (projection,)
    )
    return rows[0] if rows else None


def _change(
    store: OffsetStore,
    projection: str,
    values: Mapping[str, object],
    *,
    expected: Mapping[str, object],
) -> bool:
    return compare_and_set(
        store.control, store.table(TABLE), {"projection": projection}, values, expected=expected
    )
