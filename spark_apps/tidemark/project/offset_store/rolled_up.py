"""Stores the state of the source from which a projection of mode rollup was last made.

The state is read before the rows of the source and written after the rows of the rollup: if a time
bucket is replaced meanwhile, the next run makes the rollup again.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.project.offset_store import management_state
from tidemark.project.offset_store.offsets import OffsetStore


@dataclass(frozen=True)
class RolledUp:
    """The state of a read model, and the rollup's definition.

    Attributes:
        table: `keyspace.table` of the live version of the source.
        write_time: the source's last write timestamp, microseconds.
        version: the fingerprint of the rollup's definition.
    """

    table: str
    write_time: int
    version: str


def read(store: OffsetStore) -> RolledUp | None:
    """Read what a rollup was last made from; None if it was never made or was cleared."""
    rows = store.control.execute(
        "SELECT rolled_up_table, rolled_up_to, rolled_up_by"
        f" FROM {store.table(management_state.TABLE)} WHERE projection = ?",
        (store.subject,),
    )
    if not rows or rows[0]["rolled_up_table"] is None:
        return None
    row = rows[0]
    return RolledUp(row["rolled_up_table"], row["rolled_up_to"], row["rolled_up_by"])


def note(store: OffsetStore, state: RolledUp) -> None:
    """Write what a rollup was made from, after its rows."""
    _write(store, state.table, state.write_time, state.version)


def forget(store: OffsetStore) -> None:
    """Make the next run make a rollup again."""
    _write(store, None, None, None)


def _write(
    store: OffsetStore, table: str | None, write_time: int | None, version: str | None
) -> None:
    # After a clock is set back, older rows must not win.
    written_at = management_state.next_write_time(store)
    store.control.execute(
        f"INSERT INTO {store.table(management_state.TABLE)}"
        " (projection, rolled_up_table, rolled_up_to, rolled_up_by) VALUES (?, ?, ?, ?)"
        " USING TIMESTAMP ?",
        (store.subject, table, write_time, version, written_at),
    )
