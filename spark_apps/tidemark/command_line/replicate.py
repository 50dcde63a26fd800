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
from tidemark.ledger.applications import REPLICATE
from tidemark.replicate.held import mend as mending
from tidemark.replicate.held.replay import ReplaySelection, run_replay
from tidemark.replicate.progress import wait as waiting
from tidemark.replicate.run import run_replicate
from tidemark.settings import Settings
from tidemark.validate.layers.kafka_topic.topic_scope import OffsetRange, TopicScope
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

    Each topic partition continues after its pointer, up to its end at the start of the run. The
    order of writes is: deletes of purges, events, heads, other deletes, and the pointer last.
    Running it again after a crash writes the same rows. A record that cannot be read is kept in
    quarantine, with all later records of its key, unless TIDEMARK_KAFKA_JOURNAL_POISON has another
    value.

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
            help="Skip this record of the key permanently; can be repeated.",
        ),
    ] = None,
    apply: cli.Apply = False,
) -> Job:
    """Replicate held records in order, up to the next record that cannot be read."""
    choice = ReplaySelection(tuple(topic or ()), tuple(key or ()), tuple(skip or ()))
    return Job(lambda run: run_replay(run, choice, do=apply), dry_run=not apply)


def held(
    topic: Topic = None,
    key: Key = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write all of them to this file, to edit for `mend`."
        ),
    ] = None,
) -> Job:
    """Show the held records that cannot be read, one JSON object per line.

    Bytes that are not text are in base64, as `value_base64`.
    """
    return Job(lambda run: mending.run_held(run, topic or (), key or (), save), dry_run=True)


def mend(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Edited records of `held --save`.", show_default=False),
    ],
    apply: cli.Apply = False,
) -> Job:
    """Give held records a new content, which `replay` then replicates.

    Replaces only records whose content changed, and only if the new content can be decoded. Kafka
    keeps the original record. The table quarantined_record contains both the old and the new
    content.
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
    """Compare the replicated part of the topics with the tables.

    Differences are written to the table `finding`, and end the run with exit status 3. The tables
    of kafka-journal are not changed, and the replicator may continue meanwhile.
    """
    return Job(
        lambda run: run_verify(
            run,
            TopicScope(
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
            help="Wait until this offset is replicated; can be repeated.",
            show_default="the present ends of the topics",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0, help="Maximum time to wait.")
    ] = 3600,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the awaited and the missing offsets as JSON.")
    ] = False,
) -> None:
    """Wait until all present records of the topics are replicated, by any replicator.

    Ends with exit status 1 if they are not replicated within the timeout. Nothing is written.
    """
    if topic and offset:
        raise InvalidInput("--topic and --offset exclude each other", do="leave one of them out")
    settings = Settings.load()
    targets = waiting.parse(offset) if offset else waiting.ends(settings, topic or ())
    with Control(settings) as control:
        missing = waiting.wait(control, settings, targets, timeout)
    if as_json:
        positions = {"targets": waiting.written(targets), "missing": waiting.written(missing)}
        typer.echo(json.dumps(positions))
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
        REPLICATE,
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
