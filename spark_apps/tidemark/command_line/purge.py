"""Delete what the policies release. A dry run unless --apply is given."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.approval import Approval
from tidemark.application.cli import Job
from tidemark.purge.request import PurgeOptions, request_of
from tidemark.purge.run import APPLICATION, run_purge
from tidemark.window import Window


def main(
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME",
            help="Only this policy of TIDEMARK_RETENTION_FILE; can be repeated.",
        ),
    ] = None,
    window_start: cli.WindowStart = None,
    window_end: cli.WindowEnd = None,
    retention_days: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="DAYS",
            help="Keep tag-view buckets that ended less than this many days ago.",
            show_default="the policy's, TIDEMARK_RETENTION_DAYS, 30",
        ),
    ] = None,
    below_retention: Annotated[
        bool,
        typer.Option("--below-retention", help="Accept fewer days than TIDEMARK_RETENTION_DAYS."),
    ] = False,
    give_up: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Drop the pieces of a projection whose file you have removed permanently, so that"
            " purge keeps nothing for it; can be repeated.",
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Show the source of each value of the policies; only plan."),
    ] = False,
    approved: cli.Approved = None,
    save_to: Annotated[
        str | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Save rows as Parquet in this directory below TIDEMARK_SAVE_DIRS before deleting"
            " them; `cleanup.py restore` writes them back.",
            show_default="TIDEMARK_PURGE_SAVE_TO, else not saved",
        ),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Delete; without it only plan.")] = False,
) -> Job:
    """Delete what the policies of TIDEMARK_RETENTION_FILE release and nobody needs any more.

    Purge deletes complete time buckets of the tag views, with one partition delete for each tag. It
    deletes a time bucket only if every projection that reads tag views has consumed it, including
    late rows, and all time buckets before it; with a window, only time buckets in the window.
    Without --apply, it shows the plan and deletes nothing. Both write a row to the table audit.

    Settings are TIDEMARK_* environment variables, see docs/settings.md.
    """
    choice = PurgeOptions(
        tuple(policy or ()),
        window_start or "",
        window_end or "",
        retention_days,
        below_retention,
        tuple(give_up or ()),
    )

    def window() -> Window:
        return Window.parse(window_start, window_end)

    return Job(
        lambda run: run_purge(
            run,
            request_of(
                choice,
                apply=apply,
                explain=explain,
                save_to=save_to,
                approved=None if approved is None else Approval.parse(approved),
                settings=run.settings,
            ),
        ),
        window=window if window_start or window_end else None,
        dry_run=not apply,
    )


def start() -> None:
    """Run the command line of this process."""
    cli.start(
        APPLICATION,
        main,
        examples=["", "--explain", "--policy old-tag-views --retention-days 90 --apply"],
    )
