"""The commands `quarantine list`, `retry` and `discard` of `spark_apps/project.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.cli import Command, Job
from tidemark.project.management.commands import Name, Names
from tidemark.project.quarantine.choice import EventSelection
from tidemark.project.quarantine.discard import discard as discard_events
from tidemark.project.quarantine.listing import list_events
from tidemark.project.quarantine.retry import retry as retry_events

OnlyPersistenceId = Annotated[
    str | None,
    typer.Option("--persistence-id", metavar="ID", help="Only events of this persistence id."),
]
SequenceNr = Annotated[
    int | None,
    typer.Option("--sequence-nr", min=1, metavar="N", help="Only the event with this sequence nr."),
]


def list_quarantined(
    projection: Names = None,
    persistence_id: OnlyPersistenceId = None,
    limit: Annotated[
        int,
        typer.Option(min=1, max=1000, metavar="N", help="Number of events to show per projection."),
    ] = 100,
) -> Job:
    """List events that projections could not process, with time, cause and version."""
    return Job(
        lambda run: list_events(run, projection or [], persistence_id=persistence_id, limit=limit)
    )


def retry(
    projection: Name,
    persistence_id: OnlyPersistenceId = None,
    sequence_nr: SequenceNr = None,
    apply: cli.Apply = False,
) -> Job:
    """Let the next run process quarantined events again, after you have corrected their cause.

    The time buckets of the events are planned again; in mode fold, the states of their persistence
    ids are computed again. Events that can be processed leave quarantine. Fails while a run works
    on the projection.
    """
    choice = EventSelection(persistence_id, sequence_nr)
    return Job(lambda run: retry_events(run, projection, choice, apply=apply), dry_run=not apply)


def discard(
    projection: Name,
    reason: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="The reason; it is stored in the table audit.", show_default=False
        ),
    ],
    persistence_id: OnlyPersistenceId = None,
    sequence_nr: SequenceNr = None,
    apply: cli.Apply = False,
) -> Job:
    """Delete quarantined events that nobody will process; the journal keeps them.

    They stay consumed and are in no result. Fails while a run works on the projection.
    """
    choice = EventSelection(persistence_id, sequence_nr)
    return Job(
        lambda run: discard_events(run, projection, choice, reason, apply=apply),
        dry_run=not apply,
    )


COMMANDS: Mapping[str, Command] = {
    "quarantine list": list_quarantined,
    "quarantine retry": retry,
    "quarantine discard": discard,
}
"""The commands by their names on the command line."""

GROUPS: Mapping[str, str] = {
    "quarantine": "Events that projections could not process: list, retry or discard them."
}
"""The help texts of command groups, the first word of commands with two words."""

EXAMPLES: Mapping[str, Sequence[str]] = {
    "quarantine list": ["", "aircraft_state --persistence-id 'aircraft|N14228'"],
    "quarantine retry": [
        "aircraft_state",
        "aircraft_state --persistence-id 'aircraft|N14228' --sequence-nr 7 --apply",
    ],
    "quarantine discard": ["aircraft_state --reason 'a test of the actors' --apply"],
}
"""The arguments of example calls in the help of each command."""
