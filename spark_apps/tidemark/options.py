"""The command-line options that applications share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

WindowStart = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Start of the window, ISO 8601 in UTC, inclusive."),
]
WindowEnd = Annotated[
    str | None, typer.Option(metavar="TIME", help="End of the window, ISO 8601 in UTC, exclusive.")
]
Force = Annotated[bool, typer.Option("--force", help="Do pieces again that are done.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and write nothing.")]
RunId = Annotated[
    str | None, typer.Option(help="Name of this run in the ledger.", show_default="a new UUID")
]
ReportFile = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Also write the JSON report here.")
]


def start(main: object) -> None:
    """Run an application's `main` as a command line with plain help and one-line usage errors."""
    application = typer.Typer(
        add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    application.command(context_settings={"max_content_width": 100})(main)  # type: ignore[type-var]
    application()
