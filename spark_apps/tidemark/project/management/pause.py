"""The commands `pause` and `resume`: set a flag that every run reads before it plans.

This does not need Spark. Each change is a lightweight transaction that is conditional on the flag
that was read, and writes an audit row.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.context import Outcome, RunContext, RunState
from tidemark.errors import TidemarkError
from tidemark.ledger import audit
from tidemark.project.management.selection import select
from tidemark.project.offset_store import management_state
from tidemark.project.offset_store.management_state import PauseState
from tidemark.project.offset_store.offsets import OffsetStore


def set_paused(run: RunContext, names: Sequence[str], *, paused: bool) -> Outcome:
    """Pause or resume projections, all if `names` is empty; report those that need no change.

    A run that is under way finishes its pieces; the next run plans no pieces.

    Raises:
        InvalidInput: a projection is unknown, or its file cannot be used.
        TidemarkError: a projection was paused or resumed meanwhile.
    """
    definitions = select(run, names, with_rollups=True)
    lines, changed = [], 0
    for definition in definitions:
        store = OffsetStore.of(run, definition)
        state_before = management_state.pause_state(store)
        if bool(state_before.paused) == paused:
            state = "paused" if paused else "not paused"
            lines.append(f"{definition.name}: is {state} already, {state_before}")
            continue
        _change(run, store, state_before, paused)
        changed += 1
        lines.append(f"{definition.name}: {'paused' if paused else 'resumed'}")
    return Outcome(
        RunState.DONE if changed else RunState.NOTHING, counts={"changed": changed}, lines=lines
    )


def _change(run: RunContext, store: OffsetStore, state_before: PauseState, paused: bool) -> None:
    name = store.definition.name
    if not management_state.set_paused(store, state_before, paused=paused, owner=run.owner):
        raise TidemarkError(
            f"projection {name} was changed meanwhile: {management_state.pause_state(store)}",
            where=store.name_in_journal,
            do="look at `project.py status` and decide anew",
        )
    operation = "pause" if paused else "resume"
    audit.record(run, operation, store.name_in_journal, [f"{operation} {name}"], {"changed": 1})
