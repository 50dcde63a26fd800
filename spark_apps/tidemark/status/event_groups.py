"""Streams of event groups, and the groups that have not ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from tidemark.context import RunContext
from tidemark.event_groups.operating import open_groups
from tidemark.event_groups.operating.open_groups import OpenState, open_states
from tidemark.event_groups.stream.history import History
from tidemark.event_groups.stream.holding import HeldGroups
from tidemark.event_groups.stream.states import GroupState
from tidemark.event_groups.stream.store import Stream
from tidemark.status.page import Amount, Page, bounded, place, token

STREAMS, GROUPS = "streams", "groups"
MOST_COUNTED = 200
"""The most open groups of a stream that are counted; each of them is read with its definition."""


@dataclass(frozen=True)
class StreamState:
    """A stream.

    Attributes:
        stream: its name.
        open: groups that have not ended.
        held: those of them that wait for a group that is not rolled back.
        stuck: the groups that hold others, or whose rollback has failed, of those that were
            counted.
        oldest_open: the first group that has not ended; empty if all have.
        oldest_submitted_at: when it was submitted.
    """

    stream: str
    open: Amount
    held: Amount
    stuck: Sequence[str]
    oldest_open: str
    oldest_submitted_at: datetime | None


@dataclass(frozen=True)
class GroupOfStream:
    """A group that has not ended.

    Attributes:
        stream: its stream.
        sequence: its place in the stream.
        group: its id.
        state: its state.
        submitted_at: when it was submitted; None if purge has deleted it meanwhile.
        held_by: the group that holds it; empty if none does.
        reason: why it has not ended as a whole.
    """

    stream: str
    sequence: int
    group: str
    state: GroupState
    submitted_at: datetime | None
    held_by: str
    reason: str


def streams(run: RunContext, *, limit: int, after: str | None = None) -> Page[StreamState]:
    """Return the streams, by name.

    Raises:
        InvalidInput: `after` is no token of these pages.
    """
    begin = place(STREAMS, after, str)
    names = [name for name in open_groups.streams(run) if begin is None or name > begin[0]]
    items = [_stream(run, name) for name in names[:limit]]
    return Page(items, token(STREAMS, names[limit - 1]) if len(names) > limit else None)


def _stream(run: RunContext, name: str) -> StreamState:
    found = list(islice(open_states(Stream(run, name)), MOST_COUNTED + 1))
    held = Counter(one.held_by for one in found if one.held_by)
    failed = [one.group.id for one in found if one.group.state is GroupState.ROLLBACK_FAILED]
    oldest = found[0].group.id if found else ""
    submitted = History(run, name).submitted([oldest]) if found else {}
    is_bound = len(found) > MOST_COUNTED
    return StreamState(
        name,
        bounded(len(found), MOST_COUNTED),
        Amount(held.total(), is_at_least=is_bound),
        list(dict.fromkeys([*failed, *held])),
        oldest,
        submitted.get(oldest),
    )


def groups(
    run: RunContext, stream: str, *, limit: int, after: str | None = None
) -> Page[GroupOfStream]:
    """Return the groups of a stream that have not ended, in their order.

    On later pages `held_by` goes by what the last run of the stream has kept of the groups before.

    Raises:
        InvalidInput: `after` is no token of these pages.
    """
    begin = place(GROUPS, after, int)
    stored = Stream(run, stream)
    if begin is None:
        states = open_states(stored)
    else:
        kept = HeldGroups(run, stored).kept().groups
        before = [one for one in kept if one.item.sequence <= begin[0]]
        states = open_states(stored, begin[0] + 1, before)
    found = list(islice(states, limit + 1))
    shown = found[:limit]
    submitted = History(run, stream).submitted([one.group.id for one in shown])
    items = [_group(stream, one, submitted.get(one.group.id)) for one in shown]
    rest = token(GROUPS, items[-1].sequence) if len(found) > limit else None
    return Page(items, rest)


def _group(stream: str, one: OpenState, submitted_at: datetime | None) -> GroupOfStream:
    group = one.group
    return GroupOfStream(
        *(stream, group.sequence, group.id, group.state, submitted_at, one.held_by, group.reason)
    )
