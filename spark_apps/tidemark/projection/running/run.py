"""project from plan to report."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidemark.application import preflight
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import TidemarkError, root_cause, together
from tidemark.ledger.pieces import Reason
from tidemark.partitioning.keys import BucketSize
from tidemark.partitioning.slice_ranges import Slicing
from tidemark.projection.acceptance.accept import Policy
from tidemark.projection.analysis import analyze
from tidemark.projection.analysis.analyze import AnalyzedDefinition
from tidemark.projection.definition import catalog
from tidemark.projection.definition.model import Definition, Mode
from tidemark.projection.offset_store import pause_state
from tidemark.projection.planning.limit import limit_pieces
from tidemark.projection.planning.plan import Work, plan, validated_buckets
from tidemark.projection.planning.saved_plan import SavedPlan
from tidemark.projection.running import bisection, releases, slices
from tidemark.projection.running.outcome import COUNTS, ProjectionOutcome
from tidemark.projection.running.pipeline import process
from tidemark.projection.testing.preview import sample
from tidemark.projection.transformation import result_checks
from tidemark.projection.writing import export_files
from tidemark.projection.writing.export_directory import resolve
from tidemark.text import counted
from tidemark.window import Window, from_millis

_GAPS_SHOWN = 5
_ALWAYS_SHOWN = ("events_read", "rows_written", "quarantined")


@dataclass
class _Tally:
    """What the projections of a run did, one after the other."""

    pieces: PieceCounts = field(default_factory=PieceCounts)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    done: set[int] = field(default_factory=set)
    statuses: set[int] = field(default_factory=set)

    def fail(self, what: str, status: int) -> None:
        self.errors.append(what)
        self.statuses.add(status)

    def outcome(self, size: BucketSize) -> Outcome:
        state = RunState.DONE if self.pieces.done else RunState.NOTHING
        if self.errors:
            state = RunState.FAILED
        error = together("; ".join(self.errors), self.statuses) if self.errors else None
        hull = Window.hull(self.done, size)
        return Outcome(state, self.pieces, self.counts, self.lines, error, done=hull)


def run_window(
    run: RunContext,
    window: Window,
    *,
    names: Sequence[str],
    force: bool,
    dry_run: bool,
    policy: Policy,
    slicing: Slicing | None = None,
    show: int = 0,
    max_pieces: int | None = None,
    saved: SavedPlan | None = None,
) -> Outcome:
    """Bring the read models up to the window; paused projections are left out.

    Every definition is checked against Spark and its target before the first event is read. A
    projection that fails afterwards does not stop the others; the outcome names it.

    Args:
        run: the application's frame.
        window: whole time buckets that are over.
        names: the projections to run; all if empty.
        force: also do buckets that are done, and those that validate has not passed.
        dry_run: check and plan only.
        policy: what to do about events that are missing.
        slicing: the slices to process, and how to cut them; None for all of them at once.
        show: in a dry run, the rows to show of each projection's result over a sample; 0 for none.
        max_pieces: process at most so many time buckets of each projection, the oldest first; the
            rest stays planned.
        saved: run exactly this plan, made for this window; its projections and its force count.

    Raises:
        InvalidInput: the window does not fit the bucket size, or lies in the future; a
            projection is unknown, or cannot be processed by slices.
        DefinitionError: a projection file cannot be used.
        SchemaMismatch: the journal's tables, or a target, are missing or of another shape.
        BucketSizeMismatch: the existing tag views have another bucket size.
        TidemarkError: what the saved plan was made upon has changed.
    """
    settings = run.settings
    if saved is not None:
        saved.require_journal(settings.journal_keyspace)
        names, force = saved.names, saved.force
    definitions = catalog.select(settings.projections_dir, names)
    if slicing is not None:
        slices.require_independent(definitions)
    preflight.check(run, window, has_journal=catalog.reads_pekko(definitions))
    left_out = [] if definitions else [f"no projection is defined in {settings.projections_dir}"]
    definitions = pause_state.unpaused(run, definitions, left_out.append)
    releases.require_in_place(run.control, settings, definitions)
    works = [plan(run, definition, window, force=force) for definition in definitions]
    if saved is not None:
        works = [saved.restricted(run, work) for work in works]
    works = _narrowed(run, works, slicing, max_pieces, force=force)
    if not works:
        every = [f"every {settings.bucket_size} bucket is done"] if definitions else []
        lines, swapped = ([], 0) if dry_run else _settle(run, definitions)
        return Outcome(
            RunState.DONE if swapped else RunState.NOTHING, lines=[*left_out, *every, *lines]
        )
    checked = _check(run, works, dry_run=dry_run)
    if dry_run:
        return _planned(run, works, checked, show, left_out)
    tally = _Tally(lines=left_out)
    for work in works:
        _attempt(run, work, checked.get(work.definition.name), policy, tally)
    try:
        tally.lines += _settle(run, definitions)[0]
    except TidemarkError as error:
        tally.fail(str(error), error.exit_status)
    return tally.outcome(settings.bucket_size)


def _narrowed(
    run: RunContext,
    works: Sequence[Work],
    slicing: Slicing | None,
    max_pieces: int | None,
    *,
    force: bool,
) -> list[Work]:
    """What is to do of them, within the slices and the bounds of this run."""
    works = [slices.restricted(run, work, slicing, force=force) for work in works if work.pieces]
    if max_pieces is not None:
        works = [limit_pieces(work, max_pieces) for work in works]
    return [work for work in works if work.pieces]


def _planned(
    run: RunContext,
    works: Sequence[Work],
    checked: Mapping[str, AnalyzedDefinition],
    show: int,
    left_out: Sequence[str],
) -> Outcome:
    pieces = PieceCounts(
        planned=sum(len(work.pieces) + len(work.postponed) for work in works),
        held=sum(len(work.held) for work in works),
    )
    lines = [line for work in works for line in work.lines()]
    if show:
        for work in works:
            lines += sample(run, work, checked.get(work.definition.name), show)
    return Outcome(RunState.PLANNED, pieces, lines=[*left_out, *lines])


def _settle(run: RunContext, definitions: Sequence[Definition]) -> tuple[list[str], int]:
    """What became of blue/green versions; nothing is asked without any."""
    if not any(definition.is_blue_green for definition in definitions):
        return [], 0
    return releases.settle(run, definitions, validated_buckets(run, run.settings))


def _check(
    run: RunContext, works: Sequence[Work], *, dry_run: bool
) -> dict[str, AnalyzedDefinition]:
    """Those with something to process, by name. Without any, Spark is not started."""
    checked = {}
    for work in works:
        if work.time_buckets:
            name = work.definition.name
            checked[name] = analyze.check(run.spark, work.definition)
            result_checks.analyze(run.spark, checked[name])
            releases.require_table(run, checked[name], create=not dry_run)
            if work.definition.mode is Mode.EXPORT:
                export_files.open_files(run.spark, resolve(work.definition, run.settings), name)
    return checked


def _attempt(
    run: RunContext, work: Work, checked: AnalyzedDefinition | None, policy: Policy, tally: _Tally
) -> None:
    done, failure, status = ProjectionOutcome(), None, 1
    try:
        if work.slicing is not None:
            slices.process(run, work, checked, policy, done)
        else:
            process(run, work, checked, policy, done)
    except TidemarkError as error:
        failure, status = str(error), error.exit_status
    except Exception as error:
        # The trace is what a bug report needs; the report's one line is what everybody reads.
        traceback.print_exc(file=sys.stderr)
        failure = root_cause(error)
    if failure is not None:
        _failed(work, done, tally)
        tally.fail(f"projection {work.definition.name} failed: {failure}", status)
    if failure is None or done.counts or done.failed:
        held = len(work.held) + len(done.gaps)
        tally.pieces.planned += done.buckets + held
        tally.pieces.done += done.buckets
        tally.done |= done.counts.keys() - done.gaps.keys()
        tally.pieces.held += held
        for key, number in done.totals.items():
            tally.counts[key] += number
        tally.lines += _lines(work, done)
    tally.pieces.planned += len(work.postponed)


def _lines(work: Work, done: ProjectionOutcome) -> list[str]:
    name = work.definition.name
    numbers = ", ".join(
        f"{number:,} {key.replace('_', ' ')}"
        for key, number in done.totals.items()
        if number or key in _ALWAYS_SHOWN
    )
    held = f", {len(work.held)} held: {work.waits_for}" if work.held else ""
    later = f", {len(work.postponed):,} left for the next run" if work.postponed else ""
    missed = sum(piece.reason is Reason.MISSED for piece in work.pieces)
    made_good = f", {missed:,} missed by earlier runs" if missed else ""
    summary = f"{name}: {counted(done.buckets, 'bucket')}{made_good}, {numbers}{held}{later}"
    shown = sorted(done.gaps.items())[:_GAPS_SHOWN]
    lines = [f"{name}: {from_millis(bucket):%Y-%m-%d %H:%M} held: {gap}" for bucket, gap in shown]
    more = len(done.gaps) - len(shown)
    lines += [f"{name}: {warning}" for warning in done.warnings]
    return [summary, *lines, *([f"{name}: {more:,} more held by gaps"] if more else [])]


def _failed(work: Work, done: ProjectionOutcome, tally: _Tally) -> None:
    failed = {piece.time_bucket for piece in work.pieces} | done.failed.keys()
    failed -= done.counts.keys()
    if done.counts or done.failed:
        # The ledger was told before the first event was read.
        failed -= work.held
    tally.pieces.planned += len(failed)
    tally.pieces.failed += len(failed)
    name = work.definition.name
    tally.lines += bisection.lines(name, done) or [f"{name}: failed"]
