"""Execute event groups: statements over Cassandra as a whole, or rolled back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.cli import Job
from tidemark.event_groups import commands
from tidemark.event_groups.execution.run import run_event_groups
from tidemark.ledger.applications import RUN_EVENT_GROUPS as APPLICATION

StreamName = Annotated[
    str, typer.Option("--stream", metavar="NAME", help="The stream of the groups.")
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
        list[Path], typer.Argument(metavar="FILE...", help="Groups in YAML.", show_default=False)
    ],
    stream: StreamName = "default",
    dry_run: cli.DryRun = False,
) -> Job:
    """Check groups, and append them to a stream in the order of the files.

    A group that was submitted before is not submitted again.
    """
    return Job(
        lambda run: commands.run_submit(run, stream, files, dry_run=dry_run), dry_run=dry_run
    )


def status(
    group: Annotated[
        str | None, typer.Argument(metavar="GROUP", help="Its id.", show_default="all open ones")
    ] = None,
    stream: StreamName = "default",
) -> Job:
    """Show the groups that have not ended, or the events of one group."""
    return Job(lambda run: commands.run_status(run, stream, group), dry_run=True)


def retry(group: GroupName, stream: StreamName = "default", apply: cli.Apply = False) -> Job:
    """Let the next run try once more to roll a group back."""
    return Job(lambda run: commands.run_retry(run, stream, group, apply=apply), dry_run=not apply)


def cancel(group: GroupName, stream: StreamName = "default", apply: cli.Apply = False) -> Job:
    """Take a group that has not begun out of its stream."""
    return Job(lambda run: commands.run_cancel(run, stream, group, apply=apply), dry_run=not apply)


def plan(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A group in YAML.")],
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a flowchart of Mermaid.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The waves as JSON.")] = False,
) -> None:
    """Check a group as far as its file tells, and draw its events; Cassandra is not asked."""
    typer.echo(commands.drawn(file, as_mermaid=mermaid, as_json=as_json))


if __name__ == "__main__":
    cli.group(
        APPLICATION,
        {"submit": submit, "status": status, "retry": retry, "cancel": cancel},
        examples={
            "": ["", "--dry-run", "submit correct-order-17.yaml", "status"],
            "submit": ["--dry-run correct-order-17.yaml", "*.yaml"],
            "status": ["", "correct-order-17"],
            "retry": ["correct-order-17 --apply"],
            "cancel": ["correct-order-17 --apply"],
            "plan": ["correct-order-17.yaml", "correct-order-17.yaml --mermaid"],
        },
        tools={"plan": plan},
        default=main,
    )
