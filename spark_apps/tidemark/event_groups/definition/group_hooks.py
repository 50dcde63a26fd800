"""The hooks of a group: empty events before and after all others."""

from __future__ import annotations

from tidemark.event_groups.definition.model import Event, Group, Hooks

BEGINS = "group-begins"
"""The event before all others, which executes the hooks `before` of the group."""
ENDS = "group-ends"
"""The event after all others, which executes the hooks `after` of the group."""


def with_group_hooks(group: Group) -> tuple[Event, ...]:
    """Return the events of a group, with those that execute the group's own hooks."""
    events = group.events
    if group.hooks.before:
        first = Event(name=BEGINS, hooks=Hooks(before=group.hooks.before))
        events = (
            first,
            *(
                event if event.after else event.model_copy(update={"after": (BEGINS,)})
                for event in events
            ),
        )
    if group.hooks.after:
        awaited = {name for event in events for name in event.after}
        last = tuple(event.name for event in events if event.name not in awaited)
        events = (*events, Event(name=ENDS, after=last, hooks=Hooks(after=group.hooks.after)))
    return events
