"""Purge tag-view buckets that are past their retention. A dry run unless --apply is given."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.cli import Job
from tidemark.retention.run import APPLICATION, PurgeRequest, run_purge
from tidemark.window import Window


def main(
    window_start: cli.WindowStart = None,
    window_end: cli.WindowEnd = None,
    retention_days: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="DAYS",
            help="Keep buckets that ended less than this many days ago.",
            show_default="TIDEMARK_RETENTION_DAYS, 30",
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
    apply: Annotated[bool, typer.Option("--apply", help="Delete; without it only plan.")] = False,
) -> Job:
    """Purge the tag-view buckets that are past their retention; with a window, only those in it.

    A bucket goes as a whole, one partition delete for each tag, and only if every projection that
    reads tag views has consumed it, late rows included, and all buckets before it. Without --apply
    nothing is deleted: the plan is shown. Both leave a row in the audit table.

    Settings are TIDEMARK_* environment variables, see docs/settings.md.
    """

    def window() -> Window:
        return Window.parse(window_start, window_end)

    has_window = bool(window_start or window_end)
    return Job(
        lambda run: run_purge(
            run,
            PurgeRequest(
                window() if has_window else None,
                retention_days,
                below_retention,
                give_up or (),
                apply,
            ),
        ),
        window=window if has_window else None,
        dry_run=not apply,
    )


if __name__ == "__main__":
    cli.start(
        APPLICATION, main, examples=["", "--retention-days 90", "--retention-days 90 --apply"]
    )
