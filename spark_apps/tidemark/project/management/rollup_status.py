"""How a rollup stands, for reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemark.context import RunContext
from tidemark.project.definition.catalog import Rollup
from tidemark.project.offset_store import management_state
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.rollups import standing


def show(run: RunContext, rollup: Rollup, lines: list[str]) -> Mapping[str, Any]:
    """Add the lines of a rollup, and return its details.

    Raises:
        SchemaMismatch, DefinitionError: as `standing.require_tables` raises them.
    """
    definition, now = rollup.definition, standing.read(run, rollup)
    pause = management_state.pause_state(OffsetStore.of(run, definition))
    lines.append(f"{definition.name} version {definition.version}: {now.line(rollup)}")
    lines += [f"  {pause}"] if pause.paused else []
    standing.require_tables(run, rollup, now)
    return {
        "name": definition.name,
        "version": definition.version,
        "source": rollup.source.name,
        "made_from": now.made.table if now.made else None,
        "is_due": bool(now.reason),
        "paused": bool(pause.paused),
    }
