"""The commands `releases`, `diff`, `promote` and `drop-release` of `spark_apps/project.py`.

Only `diff` starts Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.cli import Command, Job
from tidemark.project.management.commands import Name, Names
from tidemark.project.versions.diff import run_diff
from tidemark.project.versions.promote import promote as promote_version
from tidemark.project.versions.releases import drop, run_releases
from tidemark.window import Window


def releases(
    projection: Names = None,
) -> Job:
    """Show the versions of each projection: live, being built, and ended."""
    return Job(lambda run: run_releases(run, projection or []))


def diff(
    projection: Annotated[
        list[str],
        typer.Argument(metavar="PROJECTION@N...", help="Two versions of one projection."),
    ],
    window_start: cli.WindowStart = None,
    window_end: cli.WindowEnd = None,
    limit: Annotated[
        int,
        typer.Option(
            min=1, max=1000, metavar="N", help="Number of rows, and of time buckets, to show."
        ),
    ] = 10,
) -> Job:
    """Compare the tables of two versions of a blue/green projection, with Spark.

    Reports the number of rows that differ or that only one version has (in mode bucket also by time
    bucket), some of these rows with both values, and columns that only one table has. With a
    window, for mode bucket only, only its time buckets are read. Nothing is written, and
    differences are no error.
    """
    window = (
        (lambda: Window.parse(window_start, window_end)) if window_start or window_end else None
    )
    return Job(
        lambda run: run_diff(run, projection, window() if window else None, limit=limit),
        window=window,
    )


def promote(
    projection: Name,
    version: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="The version to make live.",
            show_default="the version in the file",
        ),
    ] = None,
    apply: cli.Apply = False,
) -> Job:
    """Make a blue/green version live, after it has caught up.

    The rule is that of the automatic swap: it fails if the version has not caught up, or skipped a
    larger share of its events than the live version. It also fails while a run works on the
    version.
    """
    return Job(
        lambda run: promote_version(run, projection, version, apply=apply), dry_run=not apply
    )


def drop_release(
    projection: Name,
    version: Annotated[int, typer.Option(min=1, metavar="N", help="The version to drop.")],
    apply: cli.Apply = False,
) -> Job:
    """Drop a blue/green version that is not live: its table and its state."""
    return Job(lambda run: drop(run, projection, version, apply=apply), dry_run=not apply)


COMMANDS: Mapping[str, Command] = {
    "releases": releases,
    "diff": diff,
    "promote": promote,
    "drop-release": drop_release,
}
"""The commands by their names on the command line."""

EXAMPLES: Mapping[str, Sequence[str]] = {
    "releases": ["", "daily_punctuality"],
    "diff": [
        "daily_punctuality@1 daily_punctuality@2",
        "daily_punctuality@1 daily_punctuality@2 --window-start 2026-11-20"
        " --window-end 2026-11-21 --limit 50",
    ],
    "promote": ["daily_punctuality", "daily_punctuality --version 2 --apply"],
    "drop-release": ["daily_punctuality --version 1 --apply"],
}
"""The arguments of example calls in the help of each command."""
