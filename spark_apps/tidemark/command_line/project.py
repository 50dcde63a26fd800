"""Bring the read models up to a window, and manage the projections that make them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.cli import Job
from tidemark.partitioning.slice_ranges import Slicing, parse
from tidemark.projection.acceptance.accept import Policy
from tidemark.projection.management.commands import COMMANDS, EXAMPLES, TOOLS
from tidemark.projection.planning.build import PlanOptions
from tidemark.projection.planning.plan import APPLICATION
from tidemark.projection.planning.saved_plan import SavedPlan
from tidemark.projection.quarantine import commands as quarantine
from tidemark.projection.running.run import run_window
from tidemark.projection.versions import commands as versions
from tidemark.window import Window

Projection = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Only this projection; repeat it for more.", show_default="all"
    ),
]
Show = Annotated[
    bool, typer.Option("--show", help="In a dry run, show what each makes of a sample of events.")
]
Rows = Annotated[int, typer.Option(min=1, metavar="N", help="Rows that --show shows.")]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Fail a projection in which an event is missing before anything of it is written.",
    ),
]
AcceptPurged = Annotated[
    bool,
    typer.Option(
        "--accept-purged", help="Give up events that were deleted before they were consumed."
    ),
]
AcceptPurgedId = Annotated[
    list[str] | None,
    typer.Option(
        "--accept-purged-id",
        metavar="ID",
        help="Give up such events of this persistence id alone; repeat it for more.",
    ),
]
SavedPlanFile = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        metavar="FILE",
        help="Run exactly this plan, which `plan --save FILE` has kept; refused if what it was made"
        " upon has changed.",
    ),
]


def main(
    context: typer.Context,
    projection: Projection = None,
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
    """Bring the read models up to a window; with a command, manage the projections instead.

    The files of the projections' directory define them; see docs/projections.md. Time
    buckets that validate has not passed are held, unless --force is given. Paused projections
    are left out. Rollups come after the projections that they read.

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
            policy=Policy(strict, accept_purged, frozenset(accept_purged_id or ())),
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
