"""The status of a rollup, for reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemark.context import RunContext
from tidemark.project.definition.catalog import Rollup
from tidemark.project.offset_store import management_state
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.rollups import standing


def show(run: RunContext, rollup: Rollup, lines: list[str]) -> Mapping[str, Any]:
    """Add the lines of a rollup, and return its details; see `standing.require_tables`."""
    definition, state = rollup.definition, standing.read(run, rollup)
    pause = management_state.pause_state(OffsetStore.of(run, definition))
    lines.append(f"{definition.name} version {definition.version}: {state.line(rollup)}")
    lines += [f"  {pause}"] if pause.paused else []
    standing.require_tables(run, rollup, state)
    return {
        "name": definition.name,
        "version": definition.version,
        "source": rollup.source.name,
        "made_from": state.made.table if state.made else None,
        "is_due": bool(state.reason),
        "paused": bool(pause.paused),
    }
