"""Update read models to the end of a window, and manage the projections that make them."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.approval import Approval
from tidemark.application.cli import Job
from tidemark.partitioning.slice_ranges import Slicing, parse
from tidemark.project.acceptance.accept import MissingEventPolicy
from tidemark.project.handover import commands as handover
from tidemark.project.management.commands import COMMANDS, EXAMPLES, TOOLS
from tidemark.project.planning.build import PlanOptions
from tidemark.project.planning.plan import APPLICATION
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
    max_pieces: cli.MaxPieces = None,
    approved: cli.Approved = None,
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
    return Job(
        lambda run: run_window(
            run,
            Window.parse(window_start, window_end),
            PlanOptions(
                projection or [],
                force,
                None if slices is None else Slicing(parse(slices), force),
                max_pieces,
                None if approved is None else Approval.parse(approved),
            ),
            dry_run=dry_run,
            policy=MissingEventPolicy(strict, accept_purged, frozenset(accept_purged_id or ())),
            show=rows if show else 0,
        ),
        window=lambda: Window.parse(window_start, window_end),
        dry_run=dry_run,
    )


def start() -> None:
    """Run the command line of this process."""
    cli.group(
        APPLICATION,
        {**COMMANDS, **versions.COMMANDS, **handover.COMMANDS, **quarantine.COMMANDS},
        examples={**EXAMPLES, **versions.EXAMPLES, **handover.EXAMPLES, **quarantine.EXAMPLES},
        groups=quarantine.GROUPS,
        tools=TOOLS,
        default=main,
    )
