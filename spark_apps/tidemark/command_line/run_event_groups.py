"""Execute event groups: statements over Cassandra as a whole, or rolled back."""

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
from tidemark.event_groups.playback.selection import Part
from tidemark.event_groups.stream.states import GroupState
from tidemark.ledger.applications import RUN_EVENT_GROUPS as APPLICATION

StreamName = Annotated[
    str, typer.Option("--stream", metavar="NAME", help="The stream of the groups.")
]
Values = Annotated[
    bool, typer.Option("--values", help="Show each row before and after the writes of a group.")
]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Its id.", show_default=False)]


def main(
    context: typer.Context, stream: StreamName = "default", dry_run: cli.DryRun = False
) -> Job | None:
    """Execute the groups of a stream that have not ended, in their order.

    Groups whose declared rows do not collide run together. A group whose event fails is rolled
    back, or left without what depends on it, as its policy says. Running it again after a crash
    goes on where it was.

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
        typer.Option(metavar="NAME", help="Take the records of a Kafka topic, a group each."),
    ] = None,
    stream: StreamName = "default",
    execute: Annotated[
        bool, typer.Option("--execute", help="Also execute the open groups of the stream.")
    ] = False,
    values: Values = False,
    dry_run: cli.DryRun = False,
) -> Job:
    """Check groups, and append them to a stream in the order of the files, or of a topic.

    A group that was submitted before is not submitted again. Of a topic, records are taken that no
    run has taken yet; one that is refused goes into the table quarantined_group. With --dry-run:
    which open groups each collides with, and how many rows its writes would touch now; with
    --values also each row before and after.
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
        str | None, typer.Argument(metavar="GROUP", help="Its id.", show_default="all open ones")
    ] = None,
    stream: StreamName = "default",
    values: Values = False,
) -> Job:
    """Show the groups that have not ended and how far they lag, or the events of one group.

    With --json, the details of a group have all that is stored of it, but for values.
    """
    return Job(lambda run: run_status(run, stream, group, shows_values=values), dry_run=True)


def retry(group: GroupName, stream: StreamName = "default", apply: cli.Apply = False) -> Job:
    """Let the next run try once more to roll a group back."""
    return Job(lambda run: commands.run_retry(run, stream, group, apply=apply), dry_run=not apply)


def cancel(group: GroupName, stream: StreamName = "default", apply: cli.Apply = False) -> Job:
    """Take a group out of its stream, or let one that has begun go back.

    A run that executes the group notices it between two events, and rolls the group back; else the
    next run does.
    """
    return Job(lambda run: commands.run_cancel(run, stream, group, apply=apply), dry_run=not apply)


class SettledAs(StrEnum):
    """How a group that could not be rolled back counts from now on."""

    ROLLED_BACK = "rolled-back"
    DONE = "done"


def settle(
    group: GroupName,
    settled_as: Annotated[SettledAs, typer.Option("--as", help="What you have made of it.")],
    stream: StreamName = "default",
    apply: cli.Apply = False,
) -> Job:
    """End a group whose rollback has failed, or does not end; its rows stay as they are.

    Groups that have waited for it are executed from then on. Put its rows right before: status and
    the plan name the events that were not taken back. Refused while a run works on the stream.
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
    """Let another stream use a table, which belongs to the first one that has written it.

    Refused as long as an open group names the table, or a run works on its stream.
    """
    return Job(lambda run: commands.run_release(run, table, apply=apply), dry_run=not apply)


def playback(
    into: Annotated[
        list[str],
        typer.Option(
            metavar="KEYSPACE=KEYSPACE",
            help="What was written to the first goes into the second; can be repeated.",
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
    """Send what groups have written once more, into other keyspaces, and compare the rows.

    The tables there must be as those that they are copies of. Each statement has the parameters
    and the write time that it had; nobody outside is asked, and nothing is selected. Groups that
    were rolled back or cancelled leave nothing. Without --apply the rows are only compared.
    """
    part = Part(group, first, last)
    return Job(lambda run: run_playback(run, stream, part, into, apply=apply), dry_run=not apply)


def plan(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Groups in YAML or JSON.")],
    stream: StreamName = "default",
    values: Values = False,
) -> Job:
    """Check groups as `submit --dry-run` does, and say what they would do if they ran now.

    Shown are the waves of their events, with which open groups each collides, and how many rows its
    writes would touch; with --values also each row before and after.
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
    """Check a group as far as its file tells, and draw its events; Cassandra is not asked."""
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
