"""Update read models to the end of a window, and manage the projections that make them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.cli import Job
from tidemark.partitioning.slice_ranges import Slicing, parse
from tidemark.project.acceptance.accept import MissingEventPolicy
from tidemark.project.management.commands import COMMANDS, EXAMPLES, TOOLS
from tidemark.project.planning.build import PlanOptions
from tidemark.project.planning.plan import APPLICATION
from tidemark.project.planning.saved_plan import SavedPlan
from tidemark.project.quarantine import commands as quarantine
from tidemark.project.running.run import run_window
from tidemark.project.versions import commands as versions
from tidemark.window import Window

Show = Annotated[
    bool,
    typer.Option(
        "--show", help="In a dry run, show the result of each projection for a sample of events."
    ),
]
Rows = Annotated[int, typer.Option(min=1, metavar="N", help="Number of rows that --show shows.")]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="If an event of a projection is missing, fail the projection before it writes.",
    ),
]
AcceptPurged = Annotated[
    bool,
    typer.Option(
        "--accept-purged", help="Skip events that were deleted before they were consumed."
    ),
]
AcceptPurgedId = Annotated[
    list[str] | None,
    typer.Option(
        "--accept-purged-id",
        metavar="ID",
        help="Skip such events of this persistence id only; repeat it for more.",
    ),
]
SavedPlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        metavar="FILE",
        help="Run exactly this plan of `plan --save FILE`; fails if the state has changed since the"
        " plan was made.",
    ),
]


def main(
    context: typer.Context,
    projection: cli.Projections = None,
    window_start: cli.WindowStart = None,
    window_end: cli.WindowEnd = None,
    force: cli.Force = False,
    dry_run: cli.DryRun = False,
    strict: Strict = False,
    accept_purged: AcceptPurged = False,
    accept_purged_id: AcceptPurgedId = None,
    slices: cli.Slices = None,
    show: Show = False,
    rows: Rows = 20,
    plan: SavedPlanFile = None,
    max_pieces: cli.MaxPieces = None,
) -> Job | None:
    """Update read models to the end of a window; with a command, manage the projections instead.

    The files in the directory of projections define them; see docs/projections.md. Time buckets
    that validate has not passed are held, unless --force is given. Paused projections are skipped.
    Rollups run after the projections that they read.

    Settings are TIDEMARK_* environment variables, see docs/settings.md.
    """
    if context.invoked_subcommand is not None:
        return None
    if show and not dry_run:
        raise typer.BadParameter("it writes nothing; give --dry-run with it", param_hint="--show")
    others = (window_start, window_end, projection, force, max_pieces, slices)
    if plan is not None and any(others):
        what = "the plan says what is to run; of these options give none with it"
        raise typer.BadParameter(what, param_hint="--plan")

    @cache
    def saved() -> SavedPlan | None:
        return SavedPlan.load(plan) if plan is not None else None

    def window() -> Window:
        kept = saved()
        return kept.window if kept else Window.parse(window_start, window_end)

    return Job(
        lambda run: run_window(
            run,
            window(),
            PlanOptions(
                projection or [],
                force,
                None if slices is None else Slicing(parse(slices), force),
                max_pieces,
                saved(),
            ),
            dry_run=dry_run,
            policy=MissingEventPolicy(strict, accept_purged, frozenset(accept_purged_id or ())),
            show=rows if show else 0,
        ),
        window=window,
        dry_run=dry_run,
    )


def start() -> None:
    """Run the command line of this process."""
    cli.group(
        APPLICATION,
        {**COMMANDS, **versions.COMMANDS, **quarantine.COMMANDS},
        examples={**EXAMPLES, **versions.EXAMPLES, **quarantine.EXAMPLES},
        groups=quarantine.GROUPS,
        tools=TOOLS,
        default=main,
    )
