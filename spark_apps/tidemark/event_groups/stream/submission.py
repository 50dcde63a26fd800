"""The submission of one group, from a file, a topic or a hook."""

from __future__ import annotations

from tidemark.context import RunContext
from tidemark.event_groups.definition.file import GroupDefinition
from tidemark.event_groups.definition.tables import with_comparable_keys
from tidemark.event_groups.stream.owned_tables import OwnedTables
from tidemark.event_groups.stream.store import Stream
from tidemark.ledger import audit


def submit(run: RunContext, stream: Stream, definition: GroupDefinition) -> tuple[str, bool]:
    """Append a group to a stream; return a line of a report, and whether the group is new.

    Raises:
        InvalidInput: another group has this id, another stream uses a table of it, or a declared
            key cannot be compared.
    """
    name = definition.group.group
    comparable = with_comparable_keys(run.control, definition)
    stream.require_free(comparable)
    if not stream.has(name):
        # The run claims them again: somebody may release a table before the group is stored.
        OwnedTables(run).take(stream.name, definition.tables)
    sequence, is_new = stream.submit(comparable)
    if is_new:
        audit.record(run, "submit event group", name, [], {"sequence": sequence})
    status = "submitted" if is_new else "was submitted before"
    return f"{name}: {status} as number {sequence}", is_new
