"""Purge what the policies let go of. A dry run unless --apply is given."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.cli import Job
from tidemark.retention.approval import Approval, Choice, SavedPurge
from tidemark.retention.request import request_of
from tidemark.retention.run import APPLICATION, run_purge
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
            help="A projection that ran, and whose file is gone for good: drop its pieces, so that"
            " it holds nothing back; can be repeated.",
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Also show where each value of the policies comes from; only plan."
        ),
    ] = False,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the plan in this file; only plan.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Apply only the plan that --save has kept, with the options it was made with.",
        ),
    ] = None,
    approved: Annotated[
        str | None,
        typer.Option(
            metavar="APPROVAL",
            help="Apply only the plan with this hash and time, `digest@time` in its report; with"
            " the options that it was made with.",
        ),
    ] = None,
    save_to: Annotated[
        str | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Before anything is deleted, save it there as Parquet, below TIDEMARK_SAVE_DIRS;"
            " `cleanup.py restore` writes it back.",
            show_default="TIDEMARK_PURGE_SAVE_TO, nowhere",
        ),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Delete; without it only plan.")] = False,
) -> Job:
    """Purge what the policies of TIDEMARK_RETENTION_FILE let go of, and nobody needs any more.

    A time bucket of the tag views goes as a whole, one partition delete for each tag, and only if
    every projection that reads tag views has consumed it, late rows included, and all buckets
    before it; with a window, only those in it. Without --apply nothing is deleted: the plan is
    shown. Both leave a row in the audit table.

    Settings are TIDEMARK_* environment variables, see docs/settings.md.
    """
    choice = Choice(
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
                save=save,
                save_to=save_to,
                saved=None if plan is None else SavedPurge.load(plan),
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
