"""The time buckets that a run of the chain would process, from the ledger; starts no Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidemark import clock
from tidemark.application import preflight
from tidemark.context import RunContext
from tidemark.ledger.applications import PROJECT, TAG_WRITE, VALIDATE
from tidemark.ledger.piece import State
from tidemark.ledger.pieces import Pieces
from tidemark.ledger.schedule import time_buckets
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.project.definition.model import Definition
from tidemark.project.planning.build import PlanOptions, build
from tidemark.project.planning.plan import ProjectionPlan, ledger
from tidemark.tag_write import plan as tag_write_plan
from tidemark.tag_write import rules
from tidemark.validate import plan as validate_plan
from tidemark.window import Window, from_millis, iso, to_millis

MISSING = "missing"
"""The state of a time bucket that no run has begun."""
CHANGED = "changed"
"""The state of a time bucket that another version of the definition has done."""
MOST_RANGES = 20
"""The most ranges of time buckets that a report has for each step or projection."""


@dataclass(frozen=True)
class StepPreview:
    """The time buckets of a step of the chain, or of one of its projections.

    Attributes:
        application: the application.
        projection: the projection; empty for other applications.
        states: number of the window's time buckets by state.
        to_do: the time buckets that the run would process, also those before the window.
        waiting: number of due time buckets that the run would leave to later runs.
    """

    application: str
    projection: str
    states: Mapping[str, int]
    to_do: TimeBuckets
    waiting: int

    def details(self) -> dict[str, Any]:
        """Return the preview for programs."""
        ranges = [[iso(from_millis(bound)) for bound in part] for part in self.to_do.ranges]
        return {
            "application": self.application,
            "projection": self.projection,
            "states": dict(self.states),
            "to_do": len(self.to_do),
            "ranges": ranges[:MOST_RANGES],
            "waiting": self.waiting,
        }

    def line(self) -> str:
        """Return the preview for people."""
        states = ", ".join(f"{number:,} {state}" for state, number in self.states.items())
        ranges = [f"{Window(*map(from_millis, part))}" for part in self.to_do.ranges[:MOST_RANGES]]
        more = len(self.to_do.ranges) - len(ranges)
        places = f": {', '.join(ranges)}{f' and {more:,} more ranges' if more else ''}"
        waiting = f", {time_buckets(self.waiting)} left for later" if self.waiting else ""
        return (
            f"{self.projection or self.application}: {states};"
            f" {time_buckets(len(self.to_do))} to do{places if ranges else ''}{waiting}"
        )


@dataclass(frozen=True)
class Preview:
    """The previews of the steps and projections in their order, and problems of projections."""

    steps: Sequence[StepPreview]
    problems: Sequence[str]


def preview(run: RunContext, window: Window, projections: Sequence[str], *, force: bool) -> Preview:
    """Preview a run of the chain; nothing is written, except Tidemark's own tables if absent.

    As in the run, the window of a step also covers what the previous step would process outside of
    its window, unless `force` is set.

    Raises:
        InvalidInput: the window or a name cannot be used.
        SchemaMismatch, BucketSizeMismatch: the journal cannot be used.
    """
    preflight.check(run, window)
    is_r2dbc = run.settings.is_r2dbc
    tag_views = _nothing(run) if is_r2dbc else _tag_write(run, window, force=force)
    following = window if force else window.extended(_hull(run, tag_views))
    checks = _validate(run, window, following, tag_views, force=force)
    following = window if force else following.extended(_hull(run, checks))
    plan = build(run, following, PlanOptions(projections, force))
    plans = {projection.definition.name: projection for projection in plan.projections}
    steps = [
        _project(run, window, definition, plans.get(definition.name), checks)
        for definition in plan.definitions
    ]
    before = [checks] if is_r2dbc else [tag_views, checks]
    return Preview([*before, *steps], [*plan.left_out, *map(str, plan.errors)])


def _nothing(run: RunContext) -> StepPreview:
    """Return the preview of tag-write on a journal in PostgreSQL, which has no tag views."""
    return StepPreview(TAG_WRITE, "", {}, _buckets(run, ()), 0)


def _tag_write(run: RunContext, window: Window, *, force: bool) -> StepPreview:
    settings = run.settings
    version = rules.version(rules.load(settings.tagging_dir))
    pieces = Pieces.of(run.control, settings, TAG_WRITE, version=version)
    scheduled = pieces.schedule(window, most=settings.catch_up_buckets, force=force)
    in_reach = (
        []
        if force
        else tag_write_plan.in_reach(scheduled.pieces, settings.bucket_size, clock.now())
    )
    to_do = {piece.time_bucket for piece in scheduled.pieces if piece not in in_reach}
    return StepPreview(
        TAG_WRITE,
        "",
        _states(run, pieces, window, version),
        _buckets(run, to_do),
        len(in_reach) + len(scheduled.postponed),
    )


def _validate(
    run: RunContext, window: Window, following: Window, tag_views: StepPreview, *, force: bool
) -> StepPreview:
    settings = run.settings
    pieces = validate_plan.ledger(run)
    scheduled = pieces.schedule(following, most=settings.catch_up_buckets, force=force)
    pending = validate_plan.pending_tag_writes(run).without(tag_views.to_do).buckets
    to_do = {piece.time_bucket for piece in scheduled.pieces}
    if not force:
        to_do -= pending
    return StepPreview(
        VALIDATE,
        "",
        _states(run, pieces, window, ""),
        _buckets(run, to_do),
        len(scheduled.pieces) - len(to_do) + len(scheduled.postponed),
    )


def _project(
    run: RunContext,
    window: Window,
    definition: Definition,
    plan: ProjectionPlan | None,
    checks: StepPreview,
) -> StepPreview:
    states = _states(run, ledger(run, definition), window, definition.fingerprint)
    if plan is None:
        return StepPreview(PROJECT, definition.name, states, _buckets(run, ()), 0)
    held = plan.held - (set(checks.to_do) if definition.source.reads_journal else set())
    to_do = {piece.time_bucket for piece in plan.pieces} - held
    waiting = len(held) + len(plan.postponed)
    return StepPreview(PROJECT, definition.name, states, _buckets(run, to_do), waiting)


def _states(run: RunContext, pieces: Pieces, window: Window, version: str) -> dict[str, int]:
    entries = pieces.entries(to_millis(window.start), to_millis(window.end))
    states = Counter(
        CHANGED if entry.state is State.DONE and not entry.is_done(version) else str(entry.state)
        for entry in entries
    )
    missing = sum(1 for _ in window.buckets(run.settings.bucket_size)) - len(entries)
    return dict(sorted(states.items())) | ({MISSING: missing} if missing else {})


def _buckets(run: RunContext, time_buckets: Collection[int]) -> TimeBuckets:
    return TimeBuckets.of(time_buckets, run.settings.bucket_size.milliseconds)


def _hull(run: RunContext, step: StepPreview) -> Window | None:
    return Window.hull(step.to_do, run.settings.bucket_size)
