"""The command `tidemark`: each application is one of its commands."""

from __future__ import annotations

import ast
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

import typer

from tidemark import __version__
from tidemark.installation import DEFAULT_JOURNAL, JOURNAL_VARIABLE
from tidemark.ledger import applications

COMMANDS = (
    applications.CHAIN,
    applications.TAG_WRITE,
    applications.VALIDATE,
    applications.PROJECT,
    applications.PURGE,
    applications.CLEANUP,
    applications.RECONCILE,
    applications.REPLICATE,
    applications.RUN_EVENT_GROUPS,
    applications.STATUS,
    applications.OBSERVE,
    "jars",
)
_TOOLS = frozenset({"jars"})
EXTRAS = {"httpx": "event-groups"}
"""The extra of the package that has each module that may be absent."""
_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""Of commands that pass their arguments on, `--help` included."""


def main() -> None:
    """Run the application that the first argument names."""
    program = typer.Typer(
        add_completion=False,
        context_settings={"max_content_width": 100},
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    program.callback()(_options)
    for name in COMMANDS:
        program.command(name, short_help=_help(name), context_settings=_PASSED_ON)(_command(name))
    program(prog_name="tidemark")


def _show_version(value: bool) -> None:
    if value:
        typer.echo(__version__)
        raise typer.Exit


def _options(
    version: bool = typer.Option(
        False,
        "--version",
        is_eager=True,
        callback=_show_version,
        help="Show the version.",
    ),
    journal: str | None = typer.Option(
        None,
        metavar="NAME",
        help="A journal of the file of journals.",
        show_default=f"{JOURNAL_VARIABLE}, or {DEFAULT_JOURNAL}",
    ),
) -> None:
    """Batch projections of an event journal kept in Cassandra."""
    if journal is not None:
        os.environ[JOURNAL_VARIABLE] = journal


def _help(name: str) -> str:
    """Return the first line of an application's module, which is not imported: it loads Spark."""
    file = Path(__file__).parent / f"{_module(name).replace('.', '/')}.py"
    return ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""


def _module(name: str) -> str:
    """Return the module of a command, below `tidemark.command_line`."""
    return f"tools.{name}" if name in _TOOLS else name.replace("-", "_")


def _command(name: str) -> Callable[[typer.Context], None]:
    def run(context: typer.Context) -> None:
        # The application reads its command line as it does under spark-submit.
        sys.argv = [f"tidemark {name}", *context.args]
        try:
            application = importlib.import_module(f"tidemark.command_line.{_module(name)}")
        except ModuleNotFoundError as error:
            extra = EXTRAS.get(error.name or "")
            if extra is None:
                raise
            typer.echo(
                f"tidemark {name}: error: the package {error.name} is not installed;"
                f" pip install 'tidemark[{extra}]'",
                err=True,
            )
            raise typer.Exit(2) from None
        application.start()

    return run
