"""Build and repair the tag views of a window: tag_views, tag_write_progress, tag_scanning."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.cli import Job
from tidemark.tag_write.plan import Strategy
from tidemark.tag_write.run import APPLICATION, run_window
from tidemark.window import Window


def main(
    window_start: cli.WindowStart = None,
    window_end: cli.WindowEnd = None,
    force: cli.Force = False,
    dry_run: cli.DryRun = False,
    strategy: Annotated[
        Strategy | None,
        typer.Option(help="How to find the events.", show_default="chosen by what is cheapest"),
    ] = None,
) -> Job:
    """Build and repair the tag views of a window.

    For every event in the window, tag_write writes the rows in tag_views, then tag_write_progress,
    then tag_scanning, with the same numbers as Pekko. Running it again writes the same rows. Time
    buckets that live readers may still read are left to a later run, unless --force is given.

    Settings are TIDEMARK_* environment variables, see docs/settings.md.
    """
    return Job(
        lambda run: run_window(
            run,
            Window.parse(window_start, window_end),
            force=force,
            dry_run=dry_run,
            strategy=strategy,
        ),
        window=lambda: Window.parse(window_start, window_end),
        dry_run=dry_run,
    )


def start() -> None:
    """Run the command line of this process."""
    cli.start(
        APPLICATION,
        main,
        examples=[
            "--window-start 2026-11-20 --window-end 2026-11-21 --dry-run",
            "--window-start 2026-11-20 --window-end 2026-11-21",
            "--window-start 2026-11-20 --window-end 2026-11-21 --force",
        ],
    )
