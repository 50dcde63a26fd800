"""Check sequence continuity of a window: messages and tag views, before anything downstream."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.cli import Job
from tidemark.continuity.layers import Layers
from tidemark.continuity.plan import APPLICATION, ValidationScope
from tidemark.continuity.run import run_window
from tidemark.continuity.run_ids import run_ids
from tidemark.continuity.scope import Scope
from tidemark.inspection.check_sources import READERS
from tidemark.inspection.layers import LAYERS, LayerName
from tidemark.window import Window


def main(
    window_start: cli.WindowStart = None,
    window_end: cli.WindowEnd = None,
    persistence_id: cli.PersistenceIds = None,
    slices: cli.Slices = None,
    force: cli.Force = False,
    dry_run: cli.DryRun = False,
    scope: Annotated[
        ValidationScope,
        typer.Option(
            help="What is looked at: what is new, if that shows whether it is whole; or everything,"
            " and the time buckets that have passed once more.",
        ),
    ] = ValidationScope.NEW,
    skip_passed: Annotated[
        bool,
        typer.Option(
            "--skip-passed",
            help="Leave out time buckets of the window that have passed, as runs do that a"
            " schedule or an asset starts.",
        ),
    ] = False,
    layer: Annotated[
        list[LayerName] | None,
        typer.Option(
            help="A further layer to look at, beside messages and the tag views, whether time"
            " buckets are due or not; may be repeated. `storage` is looked at by every run."
        ),
    ] = None,
) -> Job:
    """Check sequence nr and tag pid sequence nr of a window for gaps, duplicates and lost tails.

    What is found goes to the table `finding` and into Data Docs. Any finding ends the run with
    exit status 3, so that nothing downstream starts. The window is examined even if its time
    buckets have passed before.

    With persistence ids or slices, it judges only these, in every time bucket that is over,
    whatever the window. It then marks no time bucket as passed, makes no page in Data Docs, and
    looks at no further layer and at no check of your own.

    Settings are TIDEMARK_* environment variables, see docs/settings.md.
    """
    if persistence_id or slices is not None:
        if force or layer:
            what = "persistence ids are judged by themselves; leave it out"
            raise typer.BadParameter(what, param_hint="--force" if force else "--layer")
        return Job(
            lambda run: run_ids(run, Scope.of_ids(persistence_id, slices), dry_run=dry_run),
            dry_run=dry_run,
        )
    return Job(
        lambda run: run_window(
            run,
            Window.parse(window_start, window_end),
            force=force,
            dry_run=dry_run,
            scope=scope,
            skip_passed=skip_passed,
            layers=Layers(LAYERS, layer or ()),
            readers=READERS,
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
            "--window-start 2026-11-20 --window-end 2026-11-21",
            "--window-start 2026-11-20 --window-end 2026-11-21 --scope all",
            "--window-start 2026-11-20 --window-end 2026-11-21 --layer kafka_journal",
            "--persistence-id N712TW --persistence-id N713TW",
            "--slices 0-127",
        ],
    )
