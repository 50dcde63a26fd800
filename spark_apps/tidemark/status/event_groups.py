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
from tidemark.status.page import Amount, Page, bounded, token, values_of

STREAMS, GROUPS = "streams", "groups"
MOST_COUNTED = 200
"""The most open groups of a stream that are counted; each is read with its definition."""


@dataclass(frozen=True)
class StreamState:
    """A stream of event groups.

    Attributes:
        stream: name of the stream.
        open: number of groups that have not ended.
        held: number of open groups that wait for a group that is not rolled back.
        stuck: the counted groups that hold others, or whose rollback has failed.
        oldest_open: the first group that has not ended; empty if all have.
        oldest_submitted_at: when the oldest open group was submitted.
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
        stream: name of the stream.
        sequence: position of the group in the stream.
        group: id of the group.
        state: state of the group.
        submitted_at: when the group was submitted; None if purge has deleted it since.
        held_by: id of the group that holds it; empty if none does.
        reason: why the group has not ended.
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
        InvalidInput: `after` is not a token of these pages.
    """
    begin = values_of(STREAMS, after, str)
    names = [name for name in open_groups.streams(run) if begin is None or name > begin[0]]
    items = [_stream(run, name) for name in names[:limit]]
    return Page(items, token(STREAMS, names[limit - 1]) if len(names) > limit else None)


def _stream(run: RunContext, name: str) -> StreamState:
    states = list(islice(open_states(Stream(run, name)), MOST_COUNTED + 1))
    holders = Counter(state.held_by for state in states if state.held_by)
    failed = [state.group.id for state in states if state.group.state is GroupState.ROLLBACK_FAILED]
    oldest = states[0].group.id if states else ""
    submitted = History(run, name).submitted([oldest]) if states else {}
    is_bound = len(states) > MOST_COUNTED
    return StreamState(
        name,
        bounded(len(states), MOST_COUNTED),
        Amount(holders.total(), is_at_least=is_bound),
        list(dict.fromkeys([*failed, *holders])),
        oldest,
        submitted.get(oldest),
    )


def groups(
    run: RunContext, stream: str, *, limit: int, after: str | None = None
) -> Page[GroupOfStream]:
    """Return the groups of a stream that have not ended, in their order.

    On later pages `held_by` depends on the held groups that the last run of the stream has saved.

    Raises:
        InvalidInput: `after` is not a token of these pages.
    """
    begin = values_of(GROUPS, after, int)
    stored_stream = Stream(run, stream)
    if begin is None:
        states = open_states(stored_stream)
    else:
        held_groups = HeldGroups(run, stored_stream).kept().groups
        earlier = [held for held in held_groups if held.item.sequence <= begin[0]]
        states = open_states(stored_stream, begin[0] + 1, earlier)
    read_states = list(islice(states, limit + 1))
    shown = read_states[:limit]
    submitted = History(run, stream).submitted([state.group.id for state in shown])
    items = [_group(stream, state, submitted.get(state.group.id)) for state in shown]
    next_token = token(GROUPS, items[-1].sequence) if len(read_states) > limit else None
    return Page(items, next_token)


def _group(stream: str, state: OpenState, submitted_at: datetime | None) -> GroupOfStream:
    group = state.group
    return GroupOfStream(
        *(stream, group.sequence, group.id, group.state, submitted_at, state.held_by, group.reason)
    )
