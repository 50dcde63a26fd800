"""The command `clear`: deletes a projection's offsets, so that everything is processed again."""

from __future__ import annotations

from collections.abc import Mapping

from tidemark.application.guarded_change import EnsureLocked, Plan
from tidemark.context import Outcome, RunContext
from tidemark.project.definition.model import Definition, Mode
from tidemark.project.management.change import run_change
from tidemark.project.management.offset_move import restated
from tidemark.project.management.selection import select_one
from tidemark.project.offset_store import (
    bucket_origin,
    management_state,
    rolled_up,
    skips,
    slice_records,
)
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning.plan import ledger, require_rows
from tidemark.text import counted


def clear(run: RunContext, name: str, *, apply: bool) -> Outcome:
    """Delete offsets, cursors and skips, and plan every piece again; or show the plan.

    In mode fold all states are computed again from the first events. A rollup is computed again.

    Pieces are not deleted: their attempts fence off dead runs, and the next run processes planned
    pieces, whatever its window. The target is not changed now; a piece's rows are replaced when the
    piece is processed again.

    The change may stop anywhere. If a piece is planned again and the offsets still exist, its
    events are Duplicates, so that processing them changes nothing.

    Raises:
        InvalidInput: the projection is unknown.
        HistoryPurged: the tag views of a piece were purged.
        LockHeld: a run works on the projection.
    """
    definition = select_one(run, name, with_rollups=True)
    plan = _rollup_plan if definition.mode is Mode.ROLLUP else _plan
    return run_change(run, "clear", definition, lambda: plan(run, definition), apply=apply)


def _rollup_plan(run: RunContext, definition: Definition) -> Plan:
    store = OffsetStore.of(run, definition)
    if rolled_up.read(store) is None:
        return Plan({}, [f"{definition.name}: nothing is known of it"], None)

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        ensure_locked()
        rolled_up.forget(store)
        return {"rollups_forgotten": 1}

    line = (
        f"{definition.name}: is made again by the next run; {definition.target} is left alone"
        " until then"
    )
    return Plan({"rollups_forgotten": 1}, [line], apply)


def _plan(run: RunContext, definition: Definition) -> Plan:
    store = OffsetStore.of(run, definition)
    pieces_ledger = ledger(run, definition)
    pieces = restated(pieces_ledger)
    require_rows(run, definition, [piece.time_bucket for piece in pieces])
    open_buckets = [entry.time_bucket for entry in pieces_ledger.standing().open_rows]
    by_slice = store.series_by_slice()
    counts = {
        "pieces_restated": len(pieces),
        "offsets_forgotten": sum(by_slice.values()),
        "cursors_forgotten": len(store.cursors()),
        "skips_forgotten": len(skips.stored(store)),
    }
    if not any(counts.values()):
        return Plan(counts, [f"{definition.name}: nothing is known of it"], None)

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        if definition.mode is Mode.FOLD:
            ensure_locked()
            management_state.void_states(store)
        ensure_locked()
        entries = pieces_ledger.entries()
        bucket_origin.unsettle(store, [entry.time_bucket for entry in entries])
        ensure_locked()
        pieces_ledger.restate(pieces, owner=run.owner)
        ensure_locked()
        slice_records.forget_buckets(store, open_buckets)
        ensure_locked()
        store.forget_offsets(by_slice)
        ensure_locked()
        store.forget_cursors()
        ensure_locked()
        skips.forget(store)
        return counts

    line = (
        f"{definition.name}: forgets the offsets of {counts['offsets_forgotten']:,} series and"
        f" processes {counted(len(pieces), 'time bucket')} anew; {definition.target} is left alone"
        " until then"
    )
    lines = [line]
    if definition.mode is Mode.FOLD:
        lines.append("its states are computed again from the first events, as each is processed")
    return Plan(counts, lines, apply)
