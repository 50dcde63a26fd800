"""Replicate topics of kafka-journal into its tables: journal, metajournal, pointer2."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.cli import Job
from tidemark.replication.run import APPLICATION, run_replicate


def main(
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="NAME",
            help="Only this topic; can be repeated.",
            show_default="all with the prefix",
        ),
    ] = None,
    dry_run: cli.DryRun = False,
) -> Job:
    """Replicate topics of kafka-journal into its tables.

    Each topic partition goes on behind its pointer, up to where it ends at the start of the run:
    first what purges take, then events, heads, what deletes take, and the pointer last. Running it
    again after a crash writes the same. A record that cannot be read is kept in quarantine, with
    all later ones of its key, unless TIDEMARK_KAFKA_JOURNAL_POISON says otherwise.

    Settings are TIDEMARK_* environment variables, see docs/settings.md.
    """
    return Job(lambda run: run_replicate(run, topic or (), dry_run=dry_run), dry_run=dry_run)


if __name__ == "__main__":
    cli.start(
        APPLICATION,
        main,
        examples=["--dry-run", "", "--topic journal-orders"],
    )
