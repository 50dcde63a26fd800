"""Measure lag and freshness, and keep the alarms. Spark is not started."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from tidemark.application import cli
from tidemark.application.reader import connected
from tidemark.errors import InvalidInput
from tidemark.ledger import applications
from tidemark.observations.alarms import AlarmEvent, AlarmKey, AlarmKind, AlarmMessage
from tidemark.observations.metrics import openmetrics
from tidemark.observe import run as observing
from tidemark.observe.run import Observed
from tidemark.status.as_json import as_json as json_of
from tidemark.text import counted, harmless
from tidemark.window import iso

APPLICATION = applications.OBSERVE


def main(
    last: Annotated[
        bool, typer.Option("--last", help="Show the last observation; nothing is measured.")
    ] = False,
    as_openmetrics: Annotated[
        bool, typer.Option("--openmetrics", help="Print the figures as OpenMetrics text.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
    airflow: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="The state of Airflow: the schedule of the DAG in minutes, and paused DAGs, such"
            ' as {"every_minutes": 5, "paused": ["validate"]}.',
        ),
    ] = None,
    received: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="Measure nothing; record that the notifier has received these messages of an"
            " earlier call with --json.",
        ),
    ] = None,
) -> None:
    """Measure lag and freshness, store the figures, and raise or end alarms.

    The exit status is 0 also with open alarms: an alarm is no failure of the observation. Only the
    DAG `observe` calls the notifier.

    Settings are TIDEMARK_* environment variables, see docs/settings.md.
    """
    known = _parsed(airflow, "--airflow") if airflow else {}
    messages = _parsed(received, "--received") if received else None
    with connected(APPLICATION) as run:
        if messages is not None:
            try:
                pairs = [
                    (AlarmEvent(event), AlarmKey(AlarmKind(kind), subject))
                    for event, kind, subject in messages
                ]
            except (TypeError, ValueError):
                raise _wrong("--received") from None
            observing.confirm(run, pairs)
            return
        if last:
            observed = observing.last(run)
        else:
            observed = observing.observe(
                run, paused_dags=known.get("paused"), every_minutes=known.get("every_minutes")
            )
    if as_openmetrics:
        typer.echo(openmetrics(observed.observation), nl=False)
    elif as_json:
        typer.echo(json.dumps(_json(observed)))
    else:
        typer.echo("\n".join(_text(observed)))


def _parsed(text: str, option: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise _wrong(option) from None


def _wrong(option: str) -> InvalidInput:
    return InvalidInput("the value has another form", where=option, do="see --help")


def _json(observed: Observed) -> dict[str, Any]:
    return {
        "observation": json_of(observed.observation),
        "alarms": json_of(observed.alarms),
        "messages": [_message(message) for message in observed.messages],
        "lines": list(observed.lines),
    }


def _message(message: AlarmMessage) -> dict[str, Any]:
    alarm = message.alarm
    return {
        "event": message.event.value,
        "kind": alarm.kind.value,
        "subject": alarm.subject,
        "since": iso(alarm.since),
        "what": alarm.what,
    }


def _text(observed: Observed) -> list[str]:
    observation = observed.observation
    if observation is None:
        return ["nothing was observed yet"]
    figures = counted(len(observation.samples), "figure")
    lines = [f"{figures} of {observation.journal} at {iso(observation.at)}"]
    lines += [
        harmless(f"  {alarm.kind}: {alarm.subject}: {alarm.what}, since {iso(alarm.since)}")
        for alarm in observed.alarms
    ] or ["  no alarm is open"]
    return [*lines, *(f"  {harmless(line)}" for line in observed.lines)]


def start() -> None:
    """Run the command line of this process."""
    cli.start_tool(
        APPLICATION,
        main,
        examples=["", "--json", "--openmetrics", "--last --openmetrics"],
    )
