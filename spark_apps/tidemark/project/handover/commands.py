"""The commands `take-over` and `hand-over` of `spark_apps/project.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.cli import Command, Job
from tidemark.project.handover.offsets import hand_over as hand_over_offsets
from tidemark.project.handover.offsets import take_over as take_over_offsets
from tidemark.project.management.commands import Name

Other = Annotated[
    str, typer.Option(metavar="NAME", help="The name in the other's ProjectionId, without its key.")
]


def take_over(
    projection: Name,
    other: Other,
    time_window: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="offset-store.time-window of the other; if delete-after is set, that.",
        ),
    ] = 300,
    apply: cli.Apply = False,
) -> Job:
    """Continue after the offsets of a projection of akka-projection-r2dbc, which must be stopped.

    For a journal in PostgreSQL. Reads TIDEMARK_R2DBC_OFFSET_TABLE, with Spark. Offsets only move
    forward; events that the other has consumed are in no result of modes append and upsert. Fails
    while a run works on the projection.
    """
    return Job(
        lambda run: take_over_offsets(run, projection, other, time_window, apply=apply),
        dry_run=not apply,
    )


def hand_over(
    projection: Name,
    other: Other,
    apply: cli.Apply = False,
) -> Job:
    """Let a stopped projection of akka-projection-r2dbc continue after the offsets of a projection.

    For a journal in PostgreSQL. Replaces the other's rows in TIDEMARK_R2DBC_OFFSET_TABLE in one
    transaction. Fails while a time bucket is not done, or a run works on the projection.
    """
    return Job(
        lambda run: hand_over_offsets(run, projection, other, apply=apply),
        dry_run=not apply,
    )


COMMANDS: Mapping[str, Command] = {"take-over": take_over, "hand-over": hand_over}
"""The commands by their names on the command line."""

EXAMPLES: Mapping[str, Sequence[str]] = {
    "take-over": ["order_totals --other order-totals", "order_totals --other order-totals --apply"],
    "hand-over": ["order_totals --other order-totals", "order_totals --other order-totals --apply"],
}
"""The arguments of example calls in the help of each command."""
