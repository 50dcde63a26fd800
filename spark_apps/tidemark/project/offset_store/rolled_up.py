"""What a projection of mode rollup was last made from.

It is written after the rows, and names what was there before the first row was read: a time bucket
that is replaced meanwhile makes the next run make the rollup again.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.project.offset_store import management_state
from tidemark.project.offset_store.offsets import OffsetStore


@dataclass(frozen=True)
class RolledUp:
    """A read model at a moment, and the definition that reads it.

    Attributes:
        table: `keyspace.table` of the live version of the source.
        write_time: the source's last write timestamp, microseconds.
        version: the fingerprint of the rollup's definition.
    """

    table: str
    write_time: int
    version: str


def read(store: OffsetStore) -> RolledUp | None:
    """Read what a rollup was last made from; None if it was never made, or is cleared."""
    rows = store.control.execute(
        "SELECT rolled_up_table, rolled_up_to, rolled_up_by"
        f" FROM {store.table(management_state.TABLE)} WHERE projection = ?",
        (store.subject,),
    )
    if not rows or rows[0]["rolled_up_table"] is None:
        return None
    row = rows[0]
    return RolledUp(row["rolled_up_table"], row["rolled_up_to"], row["rolled_up_by"])


def note(store: OffsetStore, made: RolledUp) -> None:
    """Write what a rollup is made from, after its rows."""
    _write(store, made.table, made.write_time, made.version)


def forget(store: OffsetStore) -> None:
    """Let the next run make a rollup again."""
    _write(store, None, None, None)


def _write(
    store: OffsetStore, table: str | None, write_time: int | None, version: str | None
) -> None:
    # A clock that is set back must not hide it behind an older row.
    written_at = management_state.next_write_time(store)
    store.control.execute(
        f"INSERT INTO {store.table(management_state.TABLE)}"
        " (projection, rolled_up_table, rolled_up_to, rolled_up_by) VALUES (?, ?, ?, ?)"
        " USING TIMESTAMP ?",
        (store.subject, table, write_time, version, written_at),
    )
