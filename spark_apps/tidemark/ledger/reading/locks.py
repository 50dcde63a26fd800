"""The locks that runs hold now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.settings import Settings

MOST = 5000
"""The most locks that one answer reads; a run over ten years of days holds 3,650."""


@dataclass(frozen=True)
class Holder:
    """A run that holds locks.

    Attributes:
        run_id: its id.
        owner: `host:pid:run id`.
        since: when it took the first of them.
        resource: one of its locks.
        locks: how many of them were read.
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
    found: dict[str, Holder] = {}
    for row in islice(rows, MOST):
        # A row that a deleted lock has left behind has no columns but its key.
        if row["run_id"] is None or row["taken_at"] is None:
            continue
        one = Holder(
            row["run_id"], row["owner"], row["taken_at"].replace(tzinfo=UTC), row["resource"]
        )
        other = found.get(one.run_id)
        found[one.run_id] = (
            one
            if other is None
            else Holder(
                one.run_id,
                one.owner,
                min(one.since, other.since),
                min(one.resource, other.resource),
                other.locks + 1,
            )
        )
    return found
