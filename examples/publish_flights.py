"""Append the demo's flights to a topic of Kafka, as kafka-journal would have."""

from __future__ import annotations

from typing import Annotated

import typer

from examples.flights.topic import APPLICATION, publish_days
from tidemark.application import cli
from tidemark.application.cli import Job


def main(
    days: Annotated[
        int, typer.Option(min=1, max=365, metavar="N", help="The first N days of 2013.")
    ] = 7,
) -> Job:
    """Append flights of 2013 to the topic <TIDEMARK_KAFKA_TOPIC_PREFIX>-flights.

    Creates the topic if it is absent. Existing events are skipped, so you can run it again, also
    after a crash.

    Settings are TIDEMARK_* environment variables, see docs/settings.md.
    """
    return Job(lambda run: publish_days(run, days))


if __name__ == "__main__":
    cli.start(
        APPLICATION,
        main,
        examples=["", "--days 31"],
        called_as="python -m examples.publish_flights",
    )
