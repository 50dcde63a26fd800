"""The check that restored rows can be read: a delete may hide them."""

from __future__ import annotations

from collections.abc import Mapping

from tidemark.context import RunContext
from tidemark.errors import TidemarkError
from tidemark.window import from_millis, iso

Table = tuple[str, str]
"""Keyspace and name."""


def require_visible(
    run: RunContext, hidden: Mapping[Table, int], saved_at: int, *, keep_write_times: bool
) -> None:
    """Require that the rows that were written can be read.

    `hidden` has the number of unreadable rows of each table; `saved_at` is when the newest of the
    copies was made, epoch ms, which was before the deletes.

    Raises:
        TidemarkError: rows are hidden; it says how many, until when, and what to do.
    """
    tables = sorted(name for name, rows in hidden.items() if rows)
    if not tables:
        return
    number = sum(hidden.values())
    where = ", ".join(".".join(name) for name in tables)
    if not keep_write_times:
        raise TidemarkError(
            f"{number:,} rows are still hidden by their delete, which a machine made whose clock is"
            " ahead of this one's",
            where=where,
            do="run it again when that time has passed",
        )
    seconds = max(_gc_grace_seconds(run, *name) for name in tables)
    until = iso(from_millis(saved_at + seconds * 1000))
    raise TidemarkError(
        f"{number:,} rows are hidden at their old write times, by the delete that took them:"
        f" Cassandra keeps it until {until} at least (gc_grace_seconds {seconds})",
        where=where,
        do="restore without --keep-write-times, or into another keyspace",
    )


def _gc_grace_seconds(run: RunContext, keyspace: str, name: str) -> int:
    rows = run.control.execute(
        "SELECT gc_grace_seconds FROM system_schema.tables"
        " WHERE keyspace_name = ? AND table_name = ?",
        (keyspace, name),
    )
    return int(rows[0]["gc_grace_seconds"]) if rows else 0
