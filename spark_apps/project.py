"""Bring the read models up to a window: every projection of include/sql/projections."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark import options
from tidemark.application import run_application
from tidemark.projection.plan import APPLICATION
from tidemark.projection.run import run_window
from tidemark.window import Window

Projection = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Only this projection; repeat it for more.", show_default="all"
    ),
]


def main(
    projection: Projection = None,
    window_start: options.WindowStart = None,
    window_end: options.WindowEnd = None,
    force: options.Force = False,
    dry_run: options.DryRun = False,
    run_id: options.RunId = None,
    report: options.ReportFile = None,
) -> None:
    """Bring the read models up to a window.

    Every SQL file of the projections' directory defines one; see docs/projections.md. Time
    buckets that validate has not passed are held, unless --force is given.

    Settings are TIDEMARK_* environment variables, see docs/settings.md.
    """
    run_application(
        APPLICATION,
        lambda run: run_window(
            run,
            Window.parse(window_start, window_end),
            names=projection or [],
            force=force,
            dry_run=dry_run,
        ),
        window=lambda: Window.parse(window_start, window_end),
        run_id=run_id,
        report_file=report,
        dry_run=dry_run,
    )


if __name__ == "__main__":
    options.start(main)
