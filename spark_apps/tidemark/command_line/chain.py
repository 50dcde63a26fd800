"""Bring tag views, checks and read models up to a window, in one Spark application."""

from __future__ import annotations

from tidemark.application import cli
from tidemark.application.cli import Job
from tidemark.chain.run import APPLICATION, ChainOptions, run_window
from tidemark.window import Window


def main(
    window_start: cli.WindowStart = None,
    window_end: cli.WindowEnd = None,
    projection: cli.Projections = None,
    force: cli.Force = False,
    dry_run: cli.DryRun = False,
) -> Job:
    """Run tag_write, validate and project over a window, one after the other.

    It does what the three applications do, and starts Spark once. Each step has its own rows in
    the ledger, its own report and its own findings. Time buckets that are done are left out, so it
    can be run again after any failure; with --force they are done again. Time buckets that a step
    cannot complete are left out or held by the next step.

    Settings are TIDEMARK_* environment variables, see docs/settings.md.
    """
    return Job(
        lambda run: run_window(
            run,
            Window.parse(window_start, window_end),
            ChainOptions(projection or (), force, dry_run),
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
            "--window-start 2026-11-20 --window-end 2026-11-27",
            "--window-start 2026-11-20 --window-end 2026-11-27 --projection daily --force",
        ],
    )
