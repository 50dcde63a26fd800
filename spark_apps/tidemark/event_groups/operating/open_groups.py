"""The open groups of streams, and the groups that hold them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.event_groups.definition.row_keys import GroupFootprint
from tidemark.event_groups.stream.holding import Held, OpenGroup, footprint_of
from tidemark.event_groups.stream.states import GroupState, StoredGroup
from tidemark.event_groups.stream.store import Stream


class OpenState(NamedTuple):
    """A group that has not ended.

    Attributes:
        group: the group.
        held_by: the id of the group that is not rolled back and holds it; empty if none does.
    """

    group: StoredGroup
    held_by: str


def open_states(
    stream: Stream, first: int | None = None, held: Sequence[GroupFootprint[OpenGroup]] = ()
) -> Iterator[OpenState]:
    """Yield the open groups of a stream, in their order.

    With `first`, the groups begin at this sequence, and `held` are the earlier groups that cannot
    be executed.
    """
    blocked = Held()
    blocked.take(held)
    stuck_before: dict[str, str] = {}
    for group in stream.open(first):
        held_by = ""
        if holder := blocked.holder(footprint_of(group)):
            stuck = stuck_before.get(holder.id, holder.id)
            stuck_before[group.id] = stuck
            if group.state is not GroupState.ROLLBACK_FAILED:
                held_by = stuck
        yield OpenState(group, held_by)


def streams(run: RunContext) -> list[str]:
    """Return the names of all streams, sorted."""
    rows = run.control.stream(
        f"SELECT DISTINCT stream FROM {table(run.settings.keyspace, 'event_group_order')}",
        page=1000,
    )
    return sorted(row["stream"] for row in rows)
