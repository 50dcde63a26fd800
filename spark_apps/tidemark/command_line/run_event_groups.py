"""Execute event groups: statements over Cassandra, all or nothing."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.cli import Job
from tidemark.event_groups import commands
from tidemark.event_groups.execution.run import run_event_groups
from tidemark.event_groups.operating.status import run_status
from tidemark.event_groups.playback.run import run_playback
from tidemark.event_groups.playback.selection import SelectedPart
from tidemark.event_groups.stream.states import GroupState
from tidemark.ledger.applications import RUN_EVENT_GROUPS as APPLICATION

StreamName = Annotated[
    str, typer.Option("--stream", metavar="NAME", help="The stream of the groups.")
]
Values = Annotated[
    bool, typer.Option("--values", help="Show each row before and after the writes of a group.")
]
GroupName = Annotated[
    str, typer.Argument(metavar="GROUP", help="The id of the group.", show_default=False)
]


def main(
    context: typer.Context, stream: StreamName = "default", dry_run: cli.DryRun = False
) -> Job | None:
    """Execute the groups of a stream that have not ended, in their order.

    Groups whose declared rows do not collide run at the same time. If an event of a group fails,
    the policy of the group decides: the group is rolled back, or only the events that depend on the
    failed event are left out. Running it again after a crash continues where the run stopped.

    Settings are TIDEMARK_* environment variables, see docs/settings.md.
    """
    if context.invoked_subcommand is not None:
        return None
    return Job(lambda run: run_event_groups(run, stream, dry_run=dry_run), dry_run=dry_run)


def submit(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE...]", help="Groups in YAML or JSON.", show_default=False),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Submit each record of this Kafka topic as a group."),
    ] = None,
    stream: StreamName = "default",
    execute: Annotated[
        bool, typer.Option("--execute", help="Also execute the open groups of the stream.")
    ] = False,
    values: Values = False,
    dry_run: cli.DryRun = False,
) -> Job:
    """Check groups, and append them to a stream in the order of the files, or of a topic.

    A group that was submitted before is not submitted again. From a topic, a run submits the
    records that no run has submitted yet, and writes rejected records to the table
    quarantined_group. With --dry-run, it shows the open groups that each group collides with, and
    the number of rows that the group would change now; with --values, also each row before and
    after.
    """
    return Job(
        lambda run: commands.run_submit(
            *(run, stream, files or [], topic),
            execute=execute,
            shows_values=values,
            dry_run=dry_run,
        ),
        dry_run=dry_run,
    )


def status(
    group: Annotated[
        str | None,
        typer.Argument(
            metavar="GROUP", help="The id of the group.", show_default="all open groups"
        ),
    ] = None,
    stream: StreamName = "default",
    values: Values = False,
) -> Job:
    """Show the groups that have not ended and their lag, or the events of a group.

    With --json, the details of a group contain everything that is stored about it, except values.
    """
    return Job(lambda run: run_status(run, stream, group, shows_values=values), dry_run=True)


def retry(group: GroupName, stream: StreamName = "default", apply: cli.Apply = False) -> Job:
    """Let the next run try again to roll a group back."""
    return Job(lambda run: commands.run_retry(run, stream, group, apply=apply), dry_run=not apply)


def cancel(group: GroupName, stream: StreamName = "default", apply: cli.Apply = False) -> Job:
    """Remove a group from its stream, or roll it back if it has begun.

    A run that is executing the group notices this between two events, and rolls the group back.
    Otherwise the next run does.
    """
    return Job(lambda run: commands.run_cancel(run, stream, group, apply=apply), dry_run=not apply)


class SettledAs(StrEnum):
    """How a group that could not be rolled back counts from now on."""

    ROLLED_BACK = "rolled-back"
    DONE = "done"


def settle(
    group: GroupName,
    settled_as: Annotated[
        SettledAs, typer.Option("--as", help="The state of its rows after your corrections.")
    ],
    stream: StreamName = "default",
    apply: cli.Apply = False,
) -> Job:
    """End a group whose rollback has failed, or does not end; its rows stay as they are.

    Groups that wait for it can then be executed. Correct its rows first: `status` and the plan list
    the events that were not rolled back. Fails while a run works on the stream.
    """
    state = GroupState(settled_as)
    return Job(
        lambda run: commands.run_settle(run, stream, group, state, apply=apply), dry_run=not apply
    )


def release(
    table: Annotated[
        str, typer.Argument(metavar="KEYSPACE.TABLE", help="The table.", show_default=False)
    ],
    apply: cli.Apply = False,
) -> Job:
    """Let another stream use a table. A table belongs to the first stream that wrote it.

    Fails while an open group uses the table, or a run works on its stream.
    """
    return Job(lambda run: commands.run_release(run, table, apply=apply), dry_run=not apply)


def playback(
    into: Annotated[
        list[str],
        typer.Option(
            metavar="KEYSPACE=KEYSPACE",
            help="Write the rows of the first keyspace into the second keyspace; can be repeated.",
        ),
    ],
    group: Annotated[str | None, typer.Option(metavar="GROUP", help="Only this group.")] = None,
    first: Annotated[
        int | None,
        typer.Option("--from", min=1, metavar="SEQUENCE", help="The first group of a range."),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option("--to", min=1, metavar="SEQUENCE", help="The last group of a range."),
    ] = None,
    stream: StreamName = "default",
    apply: cli.Apply = False,
) -> Job:
    """Send the writes of groups again, into other keyspaces, and compare the rows.

    The tables there must have the same columns as the original tables. Each statement has its
    original parameters and write time; playback calls no external service and executes no SELECT.
    Groups that were rolled back or cancelled write nothing. Without --apply, the rows are only
    compared.
    """
    part = SelectedPart(group, first, last)
    return Job(lambda run: run_playback(run, stream, part, into, apply=apply), dry_run=not apply)


def plan(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Groups in YAML or JSON.")],
    stream: StreamName = "default",
    values: Values = False,
) -> Job:
    """Check groups as `submit --dry-run` does, and show what they would do if they ran now.

    Shows the waves of their events, the open groups that each group collides with, and the number
    of rows that its writes would change; with --values, also each row before and after.
    """
    return Job(
        lambda run: commands.run_submit(
            *(run, stream, files, None), execute=False, shows_values=values, dry_run=True
        ),
        dry_run=True,
    )


def draw(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A group in YAML or JSON.")],
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a flowchart of Mermaid.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The waves as JSON.")] = False,
) -> None:
    """Check a group by its file alone, without Cassandra, and draw its events."""
    typer.echo(commands.drawn(file, as_mermaid=mermaid, as_json=as_json))


def start() -> None:
    """Run the command line of this process."""
    cli.group(
        APPLICATION,
        {
            **{"submit": submit, "status": status, "retry": retry, "cancel": cancel},
            **{"settle": settle, "release": release, "playback": playback, "plan": plan},
        },
        examples={
            "": [
                *("", "--dry-run", "plan --values correct-order-17.yaml"),
                *("submit correct-order-17.yaml", "status"),
            ],
            "submit": [
                *("--execute correct-order-17.yaml", "*.yaml", "--topic corrections"),
            ],
            "status": [
                "",
                "correct-order-17",
                "correct-order-17 --values",
                "correct-order-17 --json",
            ],
            "retry": ["correct-order-17 --apply"],
            "cancel": ["correct-order-17 --apply"],
            "settle": ["correct-order-17 --as rolled-back --apply"],
            "release": ["shop.orders", "shop.orders --apply"],
            "playback": [
                "--into shop=shop_copy --group correct-order-17",
                "--into shop=shop_copy --from 1 --to 200 --apply",
            ],
            "plan": ["correct-order-17.yaml", "--values correct-order-17.yaml"],
            "draw": ["correct-order-17.yaml", "correct-order-17.yaml --mermaid"],
        },
        tools={"draw": draw},
        default=main,
    )
