"""The locks that runs hold now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.settings import Settings

MOST = 5000
"""The most locks that an answer reads; a run over ten years of days holds 3,650."""


@dataclass(frozen=True)
class Holder:
    """A run that holds locks.

    Attributes:
        run_id: id of the run.
        owner: `host:pid:run id`.
        since: when the run took its first lock.
        resource: the first of its locks by name.
        locks: number of its locks that were read.
    """

    run_id: str
    owner: str
    since: datetime
    resource: str
    locks: int = 1


def holders(control: Control, settings: Settings) -> dict[str, Holder]:
    """Return the runs that hold locks, by run id."""
    rows = control.stream(
        f"SELECT resource, owner, run_id, taken_at FROM {table(settings.keyspace, 'lock')}",
        page=1000,
    )
    by_run_id: dict[str, Holder] = {}
    for row in islice(rows, MOST):
        # The row of a deleted lock may remain with only its key.
        if row["run_id"] is None or row["taken_at"] is None:
            continue
        holder = Holder(
            row["run_id"], row["owner"], row["taken_at"].replace(tzinfo=UTC), row["resource"]
        )
        other = by_run_id.get(holder.run_id)
        by_run_id[holder.run_id] = (
            holder
            if other is None
            else Holder(
                holder.run_id,
                holder.owner,
                min(holder.since, other.since),
                min(holder.resource, other.resource),
                other.locks + 1,
            )
        )
    return by_run_id
