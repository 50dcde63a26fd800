"""Check sequence continuity of a window: messages and tag views, before anything downstream."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.cli import Job
from tidemark.validate.layers.all_layers import LAYERS, LayerName
from tidemark.validate.layers.check_sources import READERS
from tidemark.validate.layers.layer import Layers
from tidemark.validate.plan import APPLICATION, ValidationScope
from tidemark.validate.run import run_window
from tidemark.validate.run_ids import run_ids
from tidemark.validate.scope import Scope
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
            help="`new`: check only new events, and everything if that is not conclusive. `all`:"
            " check everything, including time buckets that have passed.",
        ),
    ] = ValidationScope.NEW,
    skip_passed: Annotated[
        bool,
        typer.Option(
            "--skip-passed",
            help="Skip time buckets of the window that have passed, as in runs that a schedule or"
            " an asset starts.",
        ),
    ] = False,
    layer: Annotated[
        list[LayerName] | None,
        typer.Option(
            help="Also check this layer, in addition to messages and tag views, even if no time"
            " bucket is due; can be repeated. Every run checks `storage`."
        ),
    ] = None,
) -> Job:
    """Check sequence nr and tag pid sequence nr of a window for gaps, duplicates and lost tails.

    Findings are written to the table `finding` and to Data Docs. A finding that blocks ends the run
    with exit status 3, so that nothing downstream starts. The window is checked even if its time
    buckets have passed before.

    With persistence ids or slices, the run checks only these, in every time bucket that has ended,
    whatever the window. It then marks no time bucket as passed, writes no page in Data Docs, and
    checks neither further layers nor your own checks.

    Settings are TIDEMARK_* environment variables, see docs/settings.md.
    """
    if persistence_id or slices is not None:
        if force or layer:
            what = "persistence ids are checked alone; leave it out"
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
