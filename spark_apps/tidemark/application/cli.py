"""The command-line options that applications share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

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
Apply = Annotated[bool, typer.Option("--apply", help="Do it; without it the plan is shown.")]
PersistenceIds = Annotated[
    list[str] | None,
    typer.Option(
        "--persistence-id", metavar="ID", help="Only this persistence id; can be repeated."
    ),
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="Only this tag; can be repeated.")
]
Everything = Annotated[bool, typer.Option("--all", help="All persistence ids and tags.")]
MaxPieces = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Process at most N time buckets of each projection, the oldest first; the rest stays"
        " planned.",
    ),
]
ReportFile = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Also write the JSON report here.")
]
_WIDE = {"max_content_width": 100}


def start(main: object) -> None:
    """Run an application's `main` as a command line with plain help and one-line usage errors."""
    application = _plain()
    application.command(context_settings=_WIDE)(main)  # type: ignore[type-var]
    application()


def group(
    commands: Mapping[str, object], *, text: str | None = None, default: object = None
) -> None:
    """The same for an application with several commands, each by its name.

    Args:
        commands: the commands.
        text: the application's help, unless `default` has it.
        default: is called before each command, and alone if none is named; its first parameter is
            the `typer.Context` that says which.
    """
    application = _plain(help=text, context_settings=_WIDE, no_args_is_help=default is None)
    if default is not None:
        called = application.callback(
            invoke_without_command=True, help=default.__doc__, context_settings=_WIDE
        )
        called(default)  # type: ignore[type-var]
    for name, command in commands.items():
        application.command(name, context_settings=_WIDE)(command)  # type: ignore[type-var]
    application()


def _plain(**more: Any) -> typer.Typer:
    return typer.Typer(
        add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, **more
    )
