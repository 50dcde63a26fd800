"""Replicate topics of kafka-journal into its tables: journal, metajournal, pointer2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.cli import Job
from tidemark.cassandra.control import Control
from tidemark.errors import InvalidInput, TidemarkError
from tidemark.inspection.kafka_topic.asked import Asked, OffsetRange
from tidemark.replication.held import mend as mending
from tidemark.replication.held.replay import Choice, run_replay
from tidemark.replication.progress import wait as waiting
from tidemark.replication.run import APPLICATION, run_replicate
from tidemark.settings import Settings
from tidemark.verification.repair import run_repair
from tidemark.verification.verify import run_verify
from tidemark.window import parse_moment

Topic = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="NAME",
        help="Only this topic; can be repeated.",
        show_default="all with the prefix",
    ),
]

Key = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="ID", help="Only this key; can be repeated.", show_default="all"),
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
    key: Key = None,
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


def held(
    topic: Topic = None,
    key: Key = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write all of them here, to be edited for mend."),
    ] = None,
) -> Job:
    """Show the held records that cannot be read, one JSON object a line.

    Bytes that are no text are in base64, as `value_base64`.
    """
    return Job(lambda run: mending.run_held(run, topic or (), key or (), save), dry_run=True)


def mend(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Edited records of `held --save`.", show_default=False),
    ],
    apply: cli.Apply = False,
) -> Job:
    """Give held records another content, with which replay replicates them.

    Only what differs is mended, and only if it can be read. Kafka keeps what was written; the new
    content stays in the table quarantined_record, beside the old one.
    """
    return Job(lambda run: mending.run_mend(run, mending.parse(file), do=apply), dry_run=not apply)


def verify(
    topic: Topic = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Only records from this time on (ISO 8601, UTC), by their timestamps.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Only records before this time.")
    ] = None,
    offsets: Annotated[
        list[str] | None,
        typer.Option(
            "--offsets",
            metavar="TOPIC/PARTITION:FIRST-LAST",
            help="Only these offsets; can be repeated.",
        ),
    ] = None,
) -> Job:
    """Compare what the topics say, as far as they are replicated, with the tables.

    What differs goes to the table `finding`, and ends the run with exit status 3. Nothing in
    kafka-journal's tables is written, and the replicator may go on meanwhile.
    """
    return Job(
        lambda run: run_verify(
            run,
            Asked(
                tuple(topic or ()),
                None if since is None else parse_moment(since, "--since"),
                None if until is None else parse_moment(until, "--until"),
                tuple(OffsetRange.parse(one) for one in offsets or ()),
            ),
        )
    )


def repair(
    topic: Topic = None,
    key: Key = None,
    apply: cli.Apply = False,
) -> Job:
    """Write missing and changed events and heads again from Kafka, and delete extra events."""
    return Job(
        lambda run: run_repair(run, topic or (), key or (), do=apply),
        dry_run=not apply,
    )


def wait(
    topic: Topic = None,
    offset: Annotated[
        list[str] | None,
        typer.Option(
            "--offset",
            metavar="TOPIC/PARTITION:OFFSET",
            help="Until this one is replicated; can be repeated.",
            show_default="where the topics end now",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0, help="At most so long.")
    ] = 3600,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what is waited for, and what is missing, as JSON.")
    ] = False,
) -> None:
    """Wait until all that the topics hold now is replicated, by whichever replicator.

    It ends with exit status 1 if it is not within the timeout. Nothing is written.
    """
    if topic and offset:
        raise InvalidInput("--topic and --offset exclude each other", do="leave one of them out")
    settings = Settings.load()
    targets = waiting.parse(offset) if offset else waiting.ends(settings, topic or ())
    with Control(settings) as control:
        missing = waiting.wait(control, settings, targets, timeout)
    if as_json:
        told = {"targets": waiting.written(targets), "missing": waiting.written(missing)}
        typer.echo(json.dumps(told))
    if missing:
        raise TidemarkError(
            f"{len(missing)} of {len(targets)} topic partitions are not replicated that far after"
            f" {timeout:g} s, such as {waiting.written(missing)[0]}",
            where=f"pointer2 of {settings.kafka_journal_keyspace}",
            do="check that replicate runs, or wait longer",
        )
    if not as_json:
        typer.echo(f"{len(targets)} topic partitions are replicated that far")


def start() -> None:
    """Run the command line of this process."""
    cli.group(
        APPLICATION,
        {"held": held, "replay": replay, "mend": mend, "verify": verify, "repair": repair},
        examples={
            "": [
                *("--dry-run", "", "--topic journal-orders", "verify", "repair", "wait"),
                *("held", "replay"),
            ],
            "held": ["", "--key order-17 --save held.jsonl"],
            "mend": ["held.jsonl", "held.jsonl --apply"],
            "replay": ["", "--key order-17 --apply", "--key order-17 --skip 4711 --apply"],
            "verify": [
                "",
                "--since 2026-11-20 --until 2026-11-21",
                "--offsets journal-orders/0:1000-1999",
            ],
            "wait": ["", "--topic journal-orders --timeout 600", "--offset journal-orders/0:4711"],
            "repair": ["", "--key order-17 --apply", "--apply"],
        },
        tools={"wait": wait},
        default=main,
    )
