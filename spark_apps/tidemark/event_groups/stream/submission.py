"""The submission of one group, however it has come."""

from __future__ import annotations

from tidemark.context import RunContext
from tidemark.event_groups.definition.file import GroupDefinition
from tidemark.event_groups.definition.tables import with_comparable_keys
from tidemark.event_groups.stream.owned_tables import OwnedTables
from tidemark.event_groups.stream.store import Stream
from tidemark.ledger import audit


def submit(run: RunContext, stream: Stream, definition: GroupDefinition) -> tuple[str, bool]:
    """Append a group to a stream; return a line for people, and whether it is new.

    Raises:
        InvalidInput: another group of that id is there, another stream uses a table of it, or a
            declared key cannot be compared.
    """
    name = definition.group.group
    comparable = with_comparable_keys(run.control, definition)
    stream.require_free(comparable)
    if not stream.has(name):
        # The run takes them once more: somebody may release one before the group is there.
        OwnedTables(run).take(stream.name, definition.tables)
    sequence, is_new = stream.submit(comparable)
    if is_new:
        audit.record(run, "submit event group", name, [], {"sequence": sequence})
    told = "submitted" if is_new else "was submitted before"
    return f"{name}: {told} as number {sequence}", is_new
