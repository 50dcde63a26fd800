"""The state of a stream, and what a group has done so far.

Values are shown only on request: they may be personal data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from tidemark.cassandra.schema import create_own_tables
from tidemark.context import Outcome, RunContext, RunState
from tidemark.errors import InvalidInput
from tidemark.event_groups.operating import values
from tidemark.event_groups.operating.open_groups import open_states
from tidemark.event_groups.stream.deliveries import Deliveries, Delivery
from tidemark.event_groups.stream.history import History, existing
from tidemark.event_groups.stream.states import StoredEvent, StoredGroup
from tidemark.event_groups.stream.store import Stream
from tidemark.text import counted
from tidemark.window import iso

_MAX_LISTED = 50


def run_status(
    run: RunContext, stream: str, name: str | None, *, shows_values: bool = False
) -> Outcome:
    """Show the open groups of a stream and how far it lags, or the events of one group.

    Raises:
        InvalidInput: there is no such group, or values are requested for a stream.
    """
    create_own_tables(run.control, run.settings)
    groups, history = Stream(run, stream), History(run, stream)
    if name is None:
        if shows_values:
            raise InvalidInput("values are shown of one group", where="--values", do="name it")
        return _of_stream(run, groups, history)
    group = existing(groups, name)
    outcome = _of_group(run, group, groups, history)
    if shows_values:
        events = groups.events(name)
        images = {
            event: groups.images.of(name, event, stored.images) for event, stored in events.items()
        }
        lines = values.of_events(run.control, group.definition, events, images)
        outcome.lines += ["rows before and after", *lines]
    return outcome


def _of_stream(run: RunContext, stream: Stream, history: History) -> Outcome:
    held: Counter[str] = Counter()
    lines: list[str] = []
    counts = {"groups_open": 0, "groups_held": 0, "oldest_open_seconds": 0}
    for group, holder in open_states(stream):
        if not counts["groups_open"]:
            submitted = history.times(group.id)["submitted_at"].replace(tzinfo=UTC)
            age = int((run.moment - submitted).total_seconds())
            counts |= {"oldest_open_seconds": max(age, 0), "oldest_open_sequence": group.sequence}
            lines.append(f"the oldest was submitted at {iso(submitted)}")
        counts["groups_open"] += 1
        reason = group.reason
        if holder:
            held[holder] += 1
            reason = f"held by {holder} {reason}"
        if counts["groups_open"] <= _MAX_LISTED:
            lines.append(f"{group.sequence} {group.id}: {group.state} {reason}".rstrip())
    counts["groups_held"] = held.total()
    lines += [
        f"{group_id}, which is not rolled back, holds {counted(number, 'group')}"
        for group_id, number in held.most_common(_MAX_LISTED)
    ]
    return Outcome(RunState.PLANNED, counts=counts, lines=lines)


def _of_group(run: RunContext, group: StoredGroup, stream: Stream, history: History) -> Outcome:
    events = stream.events(group.id)
    lines = [f"{group.sequence} {group.id}: {group.state} {group.reason}".rstrip()]
    for event, summary in group.definition.summaries().items():
        stored = events.get(event, StoredEvent())
        reason = f": {stored.reason}" if stored.reason else ""
        lines.append(f"  {event} ({summary}): {stored.state}{reason}")
    deliveries = Deliveries(run, stream.name).of(group.id)
    for delivery in deliveries:
        was_given_up = delivery.state == "failed"
        why = f" after {delivery.attempts} attempts: {delivery.reason}" if was_given_up else ""
        notice = f"{delivery.notice.event} {delivery.notice.told}"
        lines.append(f"  told {delivery.target} ({notice}): {delivery.state}{why}")
    details = {"group": _reported(group, stream.name, events, history) | _notices(deliveries)}
    counts = {"events": len(group.definition.events)}
    return Outcome(RunState.PLANNED, counts=counts, lines=lines, details=details)


def _reported(
    group: StoredGroup, stream: str, events: Mapping[str, StoredEvent], history: History
) -> dict[str, object]:
    """Return a group for programs: everything that is stored of it, except values."""
    times = history.times(group.id)
    event_times = history.times_of_events(group.id)
    reported = []
    for name, summary in group.definition.summaries().items():
        event, row = events.get(name, StoredEvent()), event_times.get(name, {})
        reported.append(
            {
                "event": name,
                "does": summary,
                "after": list(group.definition.graph[name]),
                "state": event.state,
                "reason": event.reason,
                "statements": len(event.parameters),
                "parameters": len(event.parameters[0]) if event.parameters else 0,
                "write_time": event.write_time,
                "rows_kept": event.images,
                "updated_at": _iso(row.get("updated_at")),
                "run_id": row.get("run_id"),
            }
        )
    return {
        "group": group.id,
        "stream": stream,
        "sequence": group.sequence,
        "policy": group.definition.group.policy,
        "state": group.state,
        "reason": group.reason,
        "submitted_at": _iso(times["submitted_at"]),
        "updated_at": _iso(times["updated_at"]),
        "ended_at": _iso(times["ended_at"]),
        "run_id": times["run_id"],
        "events": reported,
    }


def _notices(deliveries: Sequence[Delivery]) -> dict[str, object]:
    return {
        "told": [
            {
                "event": delivery.notice.event,
                "told": delivery.notice.told,
                "target": delivery.target,
                "state": delivery.state,
                "attempts": delivery.attempts,
                "reason": delivery.reason,
            }
            for delivery in deliveries
        ]
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment.replace(tzinfo=UTC))
