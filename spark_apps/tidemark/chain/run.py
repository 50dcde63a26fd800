"""The run of the chain: each step is a run of its application, with its own report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from tidemark.application.frame import run_part
from tidemark.chain.preview import Preview, preview
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import TidemarkError, all_of
from tidemark.ledger import applications
from tidemark.project.acceptance.accept import MissingEventPolicy
from tidemark.project.definition import catalog
from tidemark.project.planning.build import PlanOptions
from tidemark.project.running import run as project
from tidemark.tag_write import run as tag_write
from tidemark.validate import run as validate
from tidemark.validate.layers.all_layers import LAYERS
from tidemark.validate.layers.check_sources import READERS
from tidemark.validate.layers.layer import Layers
from tidemark.window import Window

APPLICATION = applications.CHAIN


@dataclass(frozen=True)
class ChainOptions:
    """The options of a run of the chain.

    Attributes:
        projections: the projections to process; all if empty.
        force: whether to do done time buckets again.
        dry_run: whether only to preview.
    """

    projections: Sequence[str] = ()
    force: bool = False
    dry_run: bool = False


def run_window(run: RunContext, window: Window, options: ChainOptions) -> Outcome:
    """Run the three applications over a window, one after the other.

    The window of a step also covers what the previous step has completed outside of its window,
    such as older time buckets; with `force` it does not, so that only the given window is done
    again. Each step leaves out or holds the time buckets that the previous one could not complete.
    No step follows one that was interrupted by an error.

    Raises:
        InvalidInput: no projection has one of the names.
    """
    if options.dry_run:
        return _previewed(preview(run, window, options.projections, force=options.force))
    if options.projections:
        # Before the long steps, not after them.
        catalog.select(run.settings.projections_dir, options.projections, with_rollups=True)
    errors: list[TidemarkError] = []
    steps = {
        application: step
        for application, step in STEPS.items()
        # A journal in PostgreSQL has no tag views.
        if application != applications.TAG_WRITE or not run.settings.is_r2dbc
    }
    for number, (application, step) in enumerate(steps.items(), 1):
        run.say(f"step {number} of {len(steps)}: {application}, {window}")
        # Not even `force` projects a time bucket that has not passed.
        step_options = replace(options, force=options.force and not errors)
        part = run_part(run, application, partial(step, window, step_options), window)
        if part.error is not None:
            errors.append(part.error)
        if not part.has_ended:
            break
        if not options.force:
            window = window.extended(_done(part.content))
    return _outcome(steps, run.parts, errors)


def _previewed(plan: Preview) -> Outcome:
    to_do = sum(len(step.to_do) for step in plan.steps)
    return Outcome(
        RunState.PLANNED if to_do else RunState.NOTHING,
        PieceCounts(to_do),
        lines=[*(step.line() for step in plan.steps), *plan.problems],
        details={"plan": [step.details() for step in plan.steps]},
    )


def _tag_write(window: Window, options: ChainOptions, run: RunContext) -> Outcome:
    return tag_write.run_window(run, window, force=options.force, dry_run=False)


def _validate(window: Window, options: ChainOptions, run: RunContext) -> Outcome:
    return validate.run_window(
        run,
        window,
        force=options.force,
        dry_run=False,
        layers=Layers(LAYERS, ()),
        readers=READERS,
    )


def _project(window: Window, options: ChainOptions, run: RunContext) -> Outcome:
    return project.run_window(
        run,
        window,
        PlanOptions(options.projections, options.force),
        dry_run=False,
        policy=MissingEventPolicy(),
    )


STEPS: Mapping[str, Callable[[Window, ChainOptions, RunContext], Outcome]] = {
    applications.TAG_WRITE: _tag_write,
    applications.VALIDATE: _validate,
    applications.PROJECT: _project,
}


def _done(report: Mapping[str, Any]) -> Window | None:
    if report["done_start"] is None:
        return None
    return Window(*(datetime.fromisoformat(report[bound]) for bound in ("done_start", "done_end")))


def _outcome(
    steps: Collection[str],
    reports: Mapping[str, Mapping[str, Any]],
    errors: Sequence[TidemarkError],
) -> Outcome:
    is_any_done = any(report["state"] == RunState.DONE for report in reports.values())
    state = RunState.DONE if is_any_done else RunState.NOTHING
    pieces = Counter[str]()
    for report in reports.values():
        pieces.update(report["pieces"])
    lines = [f"{name}: {report['state']}" for name, report in reports.items()]
    not_started = [name for name in steps if name not in reports]
    lines += [f"{name}: not started, a step before it was interrupted" for name in not_started]
    projected = reports.get(applications.PROJECT)
    return Outcome(
        RunState.FAILED if errors else state,
        PieceCounts(**pieces),
        lines=lines,
        error=all_of(errors),
        details={"steps": dict(reports)},
        done=None if projected is None else _done(projected),
    )
