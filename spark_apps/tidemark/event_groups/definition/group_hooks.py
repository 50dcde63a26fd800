"""The hooks of a whole group: empty events before and after all others."""

from __future__ import annotations

from tidemark.event_groups.definition.model import Event, Group, Hooks

BEGINS = "group-begins"
"""The event before all others, which tells the hooks `before` of the group."""
ENDS = "group-ends"
"""The event after all others, which tells the hooks `after` of the group."""


def with_group_hooks(group: Group) -> tuple[Event, ...]:
    """Return the events of a group, and those that tell the group's own hooks."""
    events = group.events
    if group.hooks.before:
        first = Event(name=BEGINS, hooks=Hooks(before=group.hooks.before))
        events = (
            first,
            *(one if one.after else one.model_copy(update={"after": (BEGINS,)}) for one in events),
        )
    if group.hooks.after:
        waited = {name for one in events for name in one.after}
        last = tuple(one.name for one in events if one.name not in waited)
        events = (*events, Event(name=ENDS, after=last, hooks=Hooks(after=group.hooks.after)))
    return events
