"""The command `promote`: makes a version that has caught up the live version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidemark.application.guarded_change import EnsureLocked, Plan, guarded_change
from tidemark.context import Outcome, RunContext
from tidemark.errors import InvalidInput
from tidemark.project.definition.model import Definition
from tidemark.project.management.selection import select_one
from tidemark.project.planning import live_release
from tidemark.project.planning.lock import lock_of
from tidemark.project.planning.plan import ledger
from tidemark.project.position.ready import validated_buckets
from tidemark.project.running.releases import make_live, swap_line


def promote(run: RunContext, name: str, version: int | None, *, apply: bool) -> Outcome:
    """Make a version of a blue/green projection the live version, or show the plan.

    `version` None means the version in the file.

    Raises:
        InvalidInput: there is no such projection or version, or the next run would promote the
            version in the file again.
        WrongData: the version has not caught up, or skipped a larger share than the live version.
        LockHeld: a run works on the version.
        TidemarkError: the live version was changed meanwhile.
    """
    in_file = select_one(run, name)
    if not in_file.is_blue_green:
        raise InvalidInput(
            f"{name} is not released blue/green",
            where=str(in_file.file),
            do="write `release: blue-green`",
        )
    chosen = in_file if version in (None, in_file.version) else _other(run, in_file, version)
    return guarded_change(
        run,
        "promote",
        chosen.identity(run.settings.journal_keyspace),
        lambda: _plan(run, chosen),
        lock=lambda: lock_of(run, chosen),
        apply=apply,
    )


def _other(run: RunContext, in_file: Definition, version: int) -> Definition:
    """Return a version that is not in the file, with the fingerprint that the ledger has for it."""
    name = in_file.name
    definition = live_release.at_version(in_file, version)
    fingerprints = ledger(run, definition).standing().versions
    if not fingerprints:
        raise InvalidInput(
            f"{name} has no version {version} of its own",
            where="--version",
            do=f"look at `project.py releases {name}`",
        )
    if not in_file.is_promoted_by_hand:
        raise InvalidInput(
            f"the next run would make version {in_file.version} of {name} the live one again",
            where="--version",
            do=f"write `promote: manual`, or version {version}, into {in_file.file}",
        )
    # If several definitions had this version, none of them has processed every time bucket.
    [fingerprint, *other_fingerprints] = fingerprints
    return replace(definition, fingerprint="" if other_fingerprints else fingerprint)


def _plan(run: RunContext, definition: Definition) -> Plan:
    live = live_release.live(run.control, run.settings, definition)
    if live_release.is_live(live, definition):
        return Plan({"buckets": 0}, [f"{definition.name}: {live}"], None)
    validated = validated_buckets(run, run.settings)
    done = live_release.require_ready(run.control, run.settings, definition, live, validated)
    counts = {"buckets": len(done)}

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        ensure_locked()
        make_live(run, definition, live)
        return counts

    return Plan(counts, [f"{definition.name}: {swap_line(definition, live)}"], apply)
