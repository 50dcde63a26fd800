"""Load the demo's journal: flights that left New York in 2013, as Pekko would have written them."""

from __future__ import annotations

from typing import Annotated

import typer

from examples.flights.plan import MONTHS, load_window
from examples.flights.run import APPLICATION, load_months
from tidemark.application import cli
from tidemark.application.cli import Job


def main(
    months: Annotated[
        int,
        typer.Option(min=1, max=MONTHS, metavar="N", help="Load the first N months of 2013."),
    ] = 1,
    force: cli.Force = False,
) -> Job:
    """Load flights of 2013 into the journal as Pekko Persistence would have written them.

    Creates the keyspace and the tables of the journal if they are absent, and fails if the journal
    contains other events. A loaded month is skipped; with --force, loading it writes the same rows.

    Settings are TIDEMARK_* environment variables, see docs/settings.md.
    """
    return Job(
        lambda run: load_months(run, months, force=force),
        window=lambda: load_window(months),
    )


if __name__ == "__main__":
    cli.start(
        APPLICATION, main, examples=["", "--months 12"], called_as="python -m examples.load_flights"
    )
