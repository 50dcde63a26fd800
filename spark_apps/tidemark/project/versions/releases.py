"""The commands `releases` and `drop-release`: list versions of projections, and drop a version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemark.application.guarded_change import EnsureLocked, Plan, guarded_change
from tidemark.cassandra.schema import table
from tidemark.context import Outcome, RunContext, RunState
from tidemark.errors import InvalidInput, all_of
from tidemark.project.definition.model import Definition, Mode
from tidemark.project.management.selection import select_one, select_usable
from tidemark.project.offset_store import (
    bucket_origin,
    management_state,
    missing_numbers,
    removed_states,
    skips,
    slice_records,
)
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning import live_release
from tidemark.project.planning.lock import lock_of
from tidemark.project.planning.plan import ledger
from tidemark.project.position.ready import validated_buckets


def run_releases(run: RunContext, names: Sequence[str]) -> Outcome:
    """Report the versions of each blue/green projection, without Spark."""
    selected = select_usable(run, names)
    definitions = selected.definitions
    validated = validated_buckets(run, run.settings)
    lines, former_count = [], 0
    for definition in definitions:
        if not definition.is_blue_green:
            lines.append(f"{definition.name}: in place, {definition.target}")
            continue
        live = live_release.live(run.control, run.settings, definition)
        lines.append(f"{definition.name}: {live or 'nothing is live'}")
        if not live_release.is_live(live, definition):
            done_count, open_count = live_release.standing(
                run.control, run.settings, definition, validated
            )
            lines.append(f"  {live_release.building(definition, done_count, open_count)}")
            reason = live_release.why_not_live(
                run.control, run.settings, definition, live, validated
            )
            lines += [f"  {reason}"] if reason else []
        for version in live_release.versions_with_table(run.control, definition):
            former_target = live_release.at_version(definition, version).target
            if former_target != definition.target and (live is None or former_target != live.table):
                former_count += 1
                lines.append(
                    f"  version {version} is over, {former_target};"
                    f" `project.py drop-release {definition.name} --version {version}`"
                )
    return Outcome(
        RunState.FAILED if selected.errors else RunState.DONE,
        counts={"projections": len(definitions), "over": former_count},
        lines=lines,
        error=all_of(selected.errors),
    )


def drop(run: RunContext, name: str, version: int, *, apply: bool) -> Outcome:
    """Drop the table and all records of a version that is not live, or show the plan.

    Raises:
        InvalidInput: there is no such projection or version, or the version is live.
        LockHeld: a run works on the version.
    """
    former = live_release.at_version(select_one(run, name), version)
    return guarded_change(
        run,
        "drop-release",
        former.subject(run.settings.journal_keyspace),
        lambda: _plan(run, former),
        lock=lambda: lock_of(run, former),
        apply=apply,
    )


def _plan(run: RunContext, former: Definition) -> Plan:
    name, version = former.name, former.version
    has_table = version in live_release.versions_with_table(run.control, former)
    pieces = len(ledger(run, former).entries())
    if not former.is_blue_green or not (has_table or pieces):
        raise InvalidInput(
            f"{name} has no version {version} of its own",
            where="--version",
            do=f"look at `project.py releases {name}`",
        )
    _require_not_live(run, former)
    counts = {"tables": int(has_table), "pieces": pieces}

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        _delete(run, former, ensure_locked)
        return counts

    line = f"drop {former.target}, and version {version}'s {pieces:,} pieces and its offsets"
    return Plan(counts, [line], apply)


def _require_not_live(run: RunContext, definition: Definition) -> None:
    live = live_release.live(run.control, run.settings, definition)
    if live_release.is_live(live, definition):
        raise InvalidInput(
            f"of {definition.name} {live}", where="--version", do="name a version that is over"
        )


def _delete(run: RunContext, definition: Definition, ensure_locked: EnsureLocked) -> None:
    """Drop the table first and the pieces last: a version that has pieces can be dropped again."""
    store = OffsetStore.of(run, definition)
    ensure_locked()
    run.control.execute_ddl(f"DROP TABLE IF EXISTS {table(definition.keyspace, definition.table)}")
    ensure_locked()
    store.forget_offsets()
    if definition.mode is Mode.FOLD:
        removed_states.forget_all(store)
    skips.forget(store)
    bucket_origin.forget(store)
    # If slice records remained, they would count for pieces that begin anew.
    pieces = ledger(run, definition)
    buckets = [entry.time_bucket for entry in pieces.entries()]
    ensure_locked()
    slice_records.forget_buckets(store, buckets)
    missing_numbers.forget(store, buckets)
    store.forget_cursors()
    management_state.forget(store)
    ensure_locked()
    pieces.forget()
