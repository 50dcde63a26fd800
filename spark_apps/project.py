"""Bring the read models up to a window, and manage the projections that make them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from tidemark import options
from tidemark.application import run_application
from tidemark.projection.intake import Policy
from tidemark.projection.management import set_paused
from tidemark.projection.plan import APPLICATION
from tidemark.projection.release_management import drop, run_releases
from tidemark.projection.run import run_window
from tidemark.projection.status import run_status
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
Rows = Annotated[int, typer.Option(min=1, help="Rows of the result that --show shows.")]
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

Names = Annotated[list[str] | None, typer.Argument(metavar="[PROJECTION]...", show_default="all")]
Named = Annotated[list[str], typer.Argument(metavar="PROJECTION...")]


def main(
    context: typer.Context,
    projection: Projection = None,
    window_start: options.WindowStart = None,
    window_end: options.WindowEnd = None,
    force: options.Force = False,
    dry_run: options.DryRun = False,
    strict: Strict = False,
    accept_purged: AcceptPurged = False,
    show: Show = False,
    rows: Rows = 20,
    run_id: options.RunId = None,
    report: options.ReportFile = None,
) -> None:
    """Bring the read models up to a window; with a command, manage the projections instead.

    Every SQL file of the projections' directory defines one; see docs/projections.md. Time
    buckets that validate has not passed are held, unless --force is given. Paused projections
    are left out.

    Settings are TIDEMARK_* environment variables, see docs/settings.md.
    """
    if context.invoked_subcommand is not None:
        return
    if show and not dry_run:
        raise typer.BadParameter("it writes nothing; give --dry-run with it", param_hint="--show")
    run_application(
        APPLICATION,
        lambda run: run_window(
            run,
            Window.parse(window_start, window_end),
            names=projection or [],
            force=force,
            dry_run=dry_run,
            policy=Policy(strict=strict, accept_purged=accept_purged),
            show=rows if show else 0,
        ),
        window=lambda: Window.parse(window_start, window_end),
        run_id=run_id,
        report_file=report,
        dry_run=dry_run,
    )


def status(
    projection: Names = None,
    run_id: options.RunId = None,
    report: options.ReportFile = None,
) -> None:
    """Say how projections stand: pieces by state, what is open and why, and the lag.

    A piece is open if validate has passed its time bucket and the present definition has not
    processed it. Spark is not started, and nothing has to run.
    """
    run_application(
        APPLICATION,
        lambda run: run_status(run, projection or []),
        run_id=run_id,
        report_file=report,
    )


def pause(
    projection: Named, run_id: options.RunId = None, report: options.ReportFile = None
) -> None:
    """Leave projections out of every run to come, until they are resumed."""
    _set_paused(projection, True, run_id, report)


def resume(
    projection: Named, run_id: options.RunId = None, report: options.ReportFile = None
) -> None:
    """Let paused projections run again; the next run takes up what was left out."""
    _set_paused(projection, False, run_id, report)


def releases(
    projection: Names = None,
    run_id: options.RunId = None,
    report: options.ReportFile = None,
) -> None:
    """Say which version of each projection is live, which one is built, and which are over."""
    run_application(
        APPLICATION,
        lambda run: run_releases(run, projection or []),
        run_id=run_id,
        report_file=report,
    )


def drop_release(
    projection: Annotated[str, typer.Argument(metavar="PROJECTION")],
    version: Annotated[int, typer.Option(min=1, help="The version to drop.")],
    apply: options.Apply = False,
    run_id: options.RunId = None,
    report: options.ReportFile = None,
) -> None:
    """Drop the table of a blue/green version that is not live, and what is stored about it."""
    run_application(
        APPLICATION,
        lambda run: drop(run, projection, version, apply=apply),
        run_id=run_id,
        report_file=report,
        dry_run=not apply,
    )


def _set_paused(
    names: list[str], paused: bool, run_id: str | None, report: Path | None
) -> NoReturn:
    run_application(
        APPLICATION,
        lambda run: set_paused(run, names, paused=paused),
        run_id=run_id,
        report_file=report,
    )


if __name__ == "__main__":
    options.group(
        {
            "status": status,
            "pause": pause,
            "resume": resume,
            "releases": releases,
            "drop-release": drop_release,
        },
        default=main,
    )
