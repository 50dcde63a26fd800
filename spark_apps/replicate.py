"""Replicate topics of kafka-journal into its tables: journal, metajournal, pointer2."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.cli import Job
from tidemark.replication.replay import Choice, run_replay
from tidemark.replication.run import APPLICATION, run_replicate

Topic = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="NAME",
        help="Only this topic; can be repeated.",
        show_default="all with the prefix",
    ),
]


def main(
    context: typer.Context,
    topic: Topic = None,
    dry_run: cli.DryRun = False,
) -> Job | None:
    """Replicate topics of kafka-journal into its tables.

    Each topic partition goes on behind its pointer, up to where it ends at the start of the run:
    first what purges take, then events, heads, what deletes take, and the pointer last. Running it
    again after a crash writes the same. A record that cannot be read is kept in quarantine, with
    all later ones of its key, unless TIDEMARK_KAFKA_JOURNAL_POISON says otherwise.

    Settings are TIDEMARK_* environment variables, see docs/settings.md.
    """
    if context.invoked_subcommand is not None:
        return None
    return Job(lambda run: run_replicate(run, topic or (), dry_run=dry_run), dry_run=dry_run)


def replay(
    topic: Topic = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", metavar="ID", help="Only this key; can be repeated.", show_default="all held"
        ),
    ] = None,
    skip: Annotated[
        list[int] | None,
        typer.Option(
            "--skip",
            metavar="OFFSET",
            min=0,
            help="Pass over this record of the key for good; can be repeated.",
        ),
    ] = None,
    apply: cli.Apply = False,
) -> Job:
    """Replicate records that were held, in their order, up to the next that cannot be read."""
    choice = Choice(tuple(topic or ()), tuple(key or ()), tuple(skip or ()))
    return Job(lambda run: run_replay(run, choice, do=apply), dry_run=not apply)


if __name__ == "__main__":
    cli.group(
        APPLICATION,
        {"replay": replay},
        examples={
            "": ["--dry-run", "", "--topic journal-orders", "replay"],
            "replay": ["", "--key order-17 --apply", "--key order-17 --skip 4711 --apply"],
        },
        default=main,
    )
