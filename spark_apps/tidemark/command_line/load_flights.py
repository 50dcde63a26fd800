"""Load the demo's journal: flights that left New York in 2013, as Pekko would have written them."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.application import cli
from tidemark.application.cli import Job
from tidemark.flights.plan import MONTHS, load_window
from tidemark.flights.run import APPLICATION, load_months


def main(
    months: Annotated[
        int,
        typer.Option(min=1, max=MONTHS, metavar="N", help="Load the first so many months of 2013."),
    ] = 1,
    force: cli.Force = False,
) -> Job:
    """Load flights of 2013 into the journal as Pekko Persistence would have written them.

    Makes the journal's keyspace and tables if they are absent, and refuses a journal that holds
    anything else. A month that is loaded is left alone; loading it again writes the same rows.

    Settings are TIDEMARK_* environment variables, see docs/settings.md.
    """
    return Job(
        lambda run: load_months(run, months, force=force),
        window=lambda: load_window(months),
    )


def start() -> None:
    """Run the command line of this process."""
    cli.start(APPLICATION, main, examples=["", "--months 12"])
