"""The commands of `spark_apps/project.py` that show or change the state of projections.

Only `status` with --exact or --verify and `plan` with --ranges start Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.cli import Command, Job
from tidemark.partitioning.keys import NUMBER_OF_SLICES
from tidemark.partitioning.slice_ranges import BLOCK
from tidemark.project.definition.model import Mode
from tidemark.project.management.clear import clear as clear_projection
from tidemark.project.management.get_offset import get_offset as show_offset
from tidemark.project.management.pause import set_paused
from tidemark.project.management.set_offset import set_offset as move_offset
from tidemark.project.management.set_offset import skip as skip_numbers
from tidemark.project.management.show_plan import run_plan
from tidemark.project.management.status import run_status
from tidemark.project.planning.build import PlanOptions
from tidemark.project.testing.new import write as write_new
from tidemark.window import Window

Names = Annotated[list[str] | None, typer.Argument(metavar="[PROJECTION]...", show_default="all")]
Named = Annotated[list[str], typer.Argument(metavar="PROJECTION...")]
Name = Annotated[str, typer.Argument(metavar="PROJECTION")]
PersistenceId = Annotated[
    str, typer.Option("--persistence-id", metavar="ID", help="The persistence id of the series.")
]
Tag = Annotated[
    str | None,
    typer.Option(
        "--tag", metavar="TAG", help="The tag of the series, if the source has several tags."
    ),
]


def plan(
    projection: Names = None,
    window_start: cli.WindowStart = None,
    window_end: cli.WindowEnd = None,
    force: cli.Force = False,
    max_pieces: cli.MaxPieces = None,
    ranges: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=NUMBER_OF_SLICES // BLOCK,
            metavar="N",
            help="Also show N slice ranges with about the same number of events, for N runs with"
            " `--slices`; starts Spark to count them.",
            show_default="not shown",
        ),
    ] = None,
) -> Job:
    """List what a run over the window would do: each piece, its reason, and its number of rows.

    Reasons are new, late, gap, restated, changed definition, forced, and unfinished. The numbers of
    rows are the counts of tag-write and validate, or `?` without a count. Nothing is written.
    Without --ranges, Spark is not started, so late events are not shown: the run itself finds them.
    """
    return Job(
        lambda run: run_plan(
            run,
            Window.parse(window_start, window_end),
            PlanOptions(projection or [], force, max_pieces=max_pieces),
            ranges=ranges,
        ),
        window=lambda: Window.parse(window_start, window_end),
        dry_run=True,
    )


def status(
    projection: Names = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Count the pending events of each slice, with Spark.")
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Compare the number of rows of each time bucket with the number that was written,"
            " with Spark: only mode bucket, the newest 10,000 time buckets, and tables without a"
            " TTL.",
        ),
    ] = False,
    ranges: Annotated[
        int,
        typer.Option(
            min=1,
            max=NUMBER_OF_SLICES,
            metavar="N",
            help="Number of slice ranges that --exact shows; a power of two.",
        ),
    ] = 16,
) -> Job:
    """Show the state of projections: pieces by state, open work, the lag, the oldest gap.

    A piece is open if validate has passed its time bucket and the present definition has not
    processed it. For a rollup: its source, and whether it is up to date. Spark is not started,
    unless --exact or --verify is given, and no other application has to run.

    Ends with an error for each file that cannot be used, each absent table with time buckets that
    are done, and with --verify each table with too few or too many rows.
    """
    return Job(
        lambda run: run_status(run, projection or [], exact=exact, verify=verify, ranges=ranges)
    )


def pause(projection: Named) -> Job:
    """Exclude projections from all runs until they are resumed."""
    return Job(lambda run: set_paused(run, projection, paused=True))


def resume(projection: Named) -> Job:
    """Let paused projections run again; the next run catches up."""
    return Job(lambda run: set_paused(run, projection, paused=False))


def get_offset(
    projection: Name,
    persistence_id: Annotated[
        str | None,
        typer.Option(
            "--persistence-id", metavar="ID", help="Show the offsets of this persistence id."
        ),
    ] = None,
    tag: Tag = None,
    slice_number: Annotated[
        int | None,
        typer.Option(
            "--slice", min=0, max=NUMBER_OF_SLICES - 1, metavar="N", help="Only this slice."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Print every offset.")] = False,
) -> Job:
    """Show the offsets of a persistence id, or the cursors of the slices, of a projection.

    Without a persistence id: the number of series with an offset, the newest and the oldest cursor.
    """
    return Job(
        lambda run: show_offset(
            run,
            projection,
            persistence_id=persistence_id,
            tag=tag,
            slice_number=slice_number,
            everything=everything,
        ),
    )


def set_offset(
    projection: Name,
    persistence_id: PersistenceId,
    to: Annotated[
        int, typer.Option(min=0, metavar="N", help="All numbers up to N count as consumed.")
    ],
    tag: Tag = None,
    expected: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Fail unless the offset is N.")
    ] = None,
    apply: cli.Apply = False,
) -> Job:
    """Set the offset of a series. Forward skips events, back makes them new again.

    Skipped events are in no result. The time buckets of events that are new again are planned
    again. 0 deletes the offset of the series. Fails while a run works on the projection.
    """
    return Job(
        lambda run: move_offset(
            run, projection, persistence_id, tag, to, expected=expected, apply=apply
        ),
        dry_run=not apply,
    )


def skip(
    projection: Name,
    persistence_id: Annotated[
        str | None,
        typer.Option("--persistence-id", metavar="ID", help="The persistence id of the series."),
    ] = None,
    tag: Tag = None,
    gaps: Annotated[
        bool,
        typer.Option(
            "--gaps",
            help="Skip all recorded missing numbers of all series, instead of one number of one"
            " series.",
        ),
    ] = False,
    before: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="With --gaps: only series that hold a time bucket before this time, ISO 8601 in"
            " UTC.",
        ),
    ] = None,
    apply: cli.Apply = False,
) -> Job:
    """Skip the next number of a series, with or without an event; or recorded gaps.

    An existing event is quarantined and is in no result. With --gaps, only numbers that are still
    missing are skipped. Fails while a run works on the projection.
    """
    return Job(
        lambda run: skip_numbers(
            run, projection, persistence_id, tag, gaps=gaps, before=before, apply=apply
        ),
        dry_run=not apply,
    )


def clear(
    projection: Name,
    apply: cli.Apply = False,
) -> Job:
    """Delete the offsets of a projection, so that the next run processes everything again.

    The next run computes a rollup again.

    The target does not change; rows are replaced when their time bucket is processed. Fails while a
    run works on the projection.
    """
    return Job(
        lambda run: clear_projection(run, projection, apply=apply),
        dry_run=not apply,
    )


def new(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    mode: Annotated[Mode, typer.Option(help="How the result is stored.", show_default=False)],
    target: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="keyspace.table; in mode export a directory.",
            show_default="read_models.NAME",
        ),
    ] = None,
) -> None:
    """Write a new definition, the statement that creates its table, and a test that passes.

    The files are in the directory of projections; change them as you like. Nothing is started.
    """
    write_new(name, mode, target, typer.echo)


COMMANDS: Mapping[str, Command] = {
    "plan": plan,
    "status": status,
    "pause": pause,
    "resume": resume,
    "get-offset": get_offset,
    "set-offset": set_offset,
    "skip": skip,
    "clear": clear,
}
"""The commands by their names on the command line."""

TOOLS: Mapping[str, Callable[..., None]] = {"new": new}
"""The commands that need no `RunContext`, by their names on the command line."""

_WINDOW = "--window-start 2026-11-20 --window-end 2026-11-21"
EXAMPLES: Mapping[str, Sequence[str]] = {
    "": [
        f"{_WINDOW}",
        f"--projection daily_punctuality {_WINDOW} --dry-run --show",
        "status",
        f"plan {_WINDOW}",
    ],
    "plan": [_WINDOW, f"daily_punctuality {_WINDOW}"],
    "status": ["", "daily_punctuality --exact", "daily_punctuality --verify"],
    "pause": ["daily_punctuality"],
    "resume": ["daily_punctuality"],
    "get-offset": ["aircraft_state", "aircraft_state --persistence-id 'aircraft|N14228'"],
    "set-offset": ["aircraft_state --persistence-id 'aircraft|N14228' --to 7 --apply"],
    "skip": [
        "aircraft_state --persistence-id 'aircraft|N14228'",
        "aircraft_state --gaps --before 2026-11-20 --apply",
    ],
    "clear": ["daily_punctuality", "daily_punctuality --apply"],
    "new": ["departures_by_kind --mode bucket --target flights.departures_by_kind"],
}
"""The arguments of example calls in the help of each command, and under "" the application's."""
