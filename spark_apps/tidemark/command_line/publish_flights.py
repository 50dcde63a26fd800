"""Append the demo's flights to a topic of Kafka, as kafka-journal would have."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.cli import Job
from tidemark.flights.topic import APPLICATION, publish_days


def main(
    days: Annotated[
        int, typer.Option(min=1, max=365, metavar="N", help="The first so many days of 2013.")
    ] = 7,
) -> Job:
    """Append flights of 2013 to the topic <TIDEMARK_KAFKA_TOPIC_PREFIX>-flights.

    It makes the topic if it is absent. Events that are there are left alone, so that it can be
    called again, also after a crash.

    Settings are TIDEMARK_* environment variables, see docs/settings.md.
    """
    return Job(lambda run: publish_days(run, days))


def start() -> None:
    """Run the command line of this process."""
    cli.start(APPLICATION, main, examples=["", "--days 31"])
