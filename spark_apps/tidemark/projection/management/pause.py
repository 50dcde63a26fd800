"""Pausing and resuming projections: a flag that every run reads before it plans.

It needs no running projection and no Spark. Each change is a lightweight transaction upon the
revision that was read, and leaves an audit row.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemark import clock
from tidemark.cassandra.conditional import compare_and_set
from tidemark.cassandra.schema import table
from tidemark.context import Outcome, RunContext, RunState
from tidemark.errors import TidemarkError
from tidemark.ledger import audit
from tidemark.projection.definition.model import Definition
from tidemark.projection.management.selection import select
from tidemark.projection.offset_store.pause_state import TABLE, Standing, standing


def set_paused(run: RunContext, names: Sequence[str], *, paused: bool) -> Outcome:
    """Pause or resume projections; what stands so already is said and left alone.

    A run that is under way is not stopped: it finishes its pieces, the next one plans none.

    Args:
        run: the application's frame.
        names: the projections; all if empty.
        paused: what they are to be.

    Raises:
        InvalidInput: a projection is unknown.
        DefinitionError: a projection file cannot be used.
        TidemarkError: somebody else changed one of them meanwhile.
    """
    definitions = select(run, names)
    lines, changed = [], 0
    for definition in definitions:
        before = standing(run.control, run.settings, definition)
        if before.paused == paused:
            state = "paused" if paused else "not paused"
            lines.append(f"{definition.name}: is {state} already, {before}")
            continue
        _change(run, definition, before, paused)
        changed += 1
        lines.append(f"{definition.name}: {'paused' if paused else 'resumed'}")
    return Outcome(
        RunState.DONE if changed else RunState.NOTHING, counts={"changed": changed}, lines=lines
    )


def _change(run: RunContext, definition: Definition, before: Standing, paused: bool) -> None:
    settings, subject = run.settings, definition.identity(run.settings.journal_keyspace)
    is_changed = compare_and_set(
        run.control,
        table(settings.keyspace, TABLE),
        {"projection": subject},
        {
            "paused": paused,
            "revision": before.revision + 1,
            "owner": run.owner,
            "last_updated": clock.now(),
        },
        expected={"revision": before.revision} if before.revision else None,
    )
    if not is_changed:
        now = standing(run.control, settings, definition)
        raise TidemarkError(
            f"projection {definition.name} was changed meanwhile: {now}",
            where=subject,
            do="look at `project.py status` and decide anew",
        )
    operation = "pause" if paused else "resume"
    audit.record(run, operation, subject, [f"{operation} {definition.name}"], {"changed": 1})
