"""The command lines of the applications, and the options that they share."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, Signature
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer

from tidemark.application.approval import OPTION
from tidemark.application.frame import run_application
from tidemark.context import Outcome, RunContext
from tidemark.errors import TidemarkError
from tidemark.installation import program
from tidemark.text import harmless
from tidemark.window import Window

WindowStart = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Start of the window, ISO 8601 in UTC, inclusive."),
]
WindowEnd = Annotated[
    str | None, typer.Option(metavar="TIME", help="End of the window, ISO 8601 in UTC, exclusive.")
]
Force = Annotated[bool, typer.Option("--force", help="Process pieces again that are done.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and write nothing.")]
RunId = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Name of this run in the ledger.", show_default="a new UUID"),
]
Apply = Annotated[
    bool, typer.Option("--apply", help="Execute the plan; without --apply, only show it.")
]
PersistenceIds = Annotated[
    list[str] | None,
    typer.Option(
        "--persistence-id", metavar="ID", help="Only this persistence id; can be repeated."
    ),
]
Slices = Annotated[
    str | None,
    typer.Option(
        metavar="FIRST-LAST",
        help="Only persistence ids of these slices, such as 0-255.",
        show_default="all",
    ),
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="Only this tag; can be repeated.")
]
Projections = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Only this projection; repeat it for more.", show_default="all"
    ),
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
Approved = Annotated[
    str | None,
    typer.Option(
        OPTION,
        metavar="APPROVAL",
        help="Do exactly what the plan with this approval shows, `digest@time` in its report; give"
        " the options of that plan.",
    ),
]
ReportFile = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Also write the JSON report here.")
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json",
        help="End with the report as a line of JSON also on a terminal. Without a terminal, this is"
        " the default.",
    ),
]
_RUN_OPTIONS = [
    Parameter("run_id", Parameter.KEYWORD_ONLY, default=None, annotation=RunId),
    Parameter("report", Parameter.KEYWORD_ONLY, default=None, annotation=ReportFile),
    Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=AsJson),
]
_WIDE = {"max_content_width": 100}


@dataclass(frozen=True)
class Job:
    """The job that a command line requests.

    Attributes:
        work: function that does the work.
        window: function that returns the window of the report and rejects bad parameters; None if
            the job has no window.
        dry_run: whether the job changes nothing, for the report.
    """

    work: Callable[[RunContext], Outcome]
    window: Callable[[], Window] | None = None
    dry_run: bool = False


Command = Callable[..., Job | None]
"""A function of the options and arguments that returns a job; None if there is nothing to do."""


def start(
    application: str, main: Command, *, examples: Sequence[str], called_as: str | None = None
) -> None:
    """Run an application's `main` as a command line with plain help and one-line usage errors.

    `application` is the name in reports and in the ledger. The help shows `examples`, options of
    calls, after `called_as`, which is by default the program in `spark_apps` or of `tidemark`.
    """
    command_line = _plain()
    epilog = _examples(application, examples, called_as)
    command_line.command(context_settings=_WIDE, epilog=epilog)(_runs(application, main))
    _call(command_line)


def start_tool(name: str, tool: Callable[..., None], *, examples: Sequence[str]) -> None:
    """Run a tool as a command line; it does without Cassandra and leaves no report."""
    command_line = _plain()
    epilog = _examples(name, examples)
    command_line.command(context_settings=_WIDE, epilog=epilog)(_in_one_line(tool))
    _call(command_line)


def group(
    application: str,
    commands: Mapping[str, Command],
    *,
    examples: Mapping[str, Sequence[str]],
    groups: Mapping[str, str] = MappingProxyType({}),
    tools: Mapping[str, Callable[..., None]] = MappingProxyType({}),
    text: str | None = None,
    default: Command | None = None,
) -> None:
    """Run an application with several named commands as a command line.

    Args:
        application: name of the application in reports and in the ledger.
        commands: commands by name; a name of two words is a command of a group.
        examples: options of calls for the help, by command; under "" those of the application's own
            help, which start with their command.
        groups: help texts of the groups, by their names.
        tools: further commands by name, which need no Cassandra and have no report.
        text: help text of the application, unless `default` has one.
        default: function that runs before each command, and alone if there is no command; its
            first parameter is the `typer.Context`, which has the command's name.
    """
    epilog = _examples(application, examples[""])
    command_line = _plain(
        help=text, context_settings=_WIDE, no_args_is_help=default is None, epilog=epilog
    )
    if default is not None:
        command_line.callback(
            invoke_without_command=True, help=default.__doc__, context_settings=_WIDE, epilog=epilog
        )(_runs(application, default))
    group_lines = {name: _plain(no_args_is_help=True, context_settings=_WIDE) for name in groups}
    for name, line in group_lines.items():
        command_line.add_typer(line, name=name, help=groups[name])
    for name, command in commands.items():
        group_name, _, own_name = name.rpartition(" ")
        line = group_lines[group_name] if group_name else command_line
        epilog = _examples(application, _calls(name, examples))
        line.command(own_name, context_settings=_WIDE, epilog=epilog)(_runs(application, command))
    for name, tool in tools.items():
        epilog = _examples(application, _calls(name, examples))
        command_line.command(name, context_settings=_WIDE, epilog=epilog)(_in_one_line(tool))
    _call(command_line)


def readers(
    application: str,
    default: Callable[..., None],
    commands: Mapping[str, Callable[..., None]],
    *,
    examples: Mapping[str, Sequence[str]],
) -> None:
    """Run an application that only reads: its commands leave no report and no row in `run`.

    Args:
        application: name of the application in its errors.
        default: function that runs before each command, and alone without a command; its first
            parameter is the `typer.Context`, which names the command.
        commands: commands by name.
        examples: options of calls that the help shows, by command; under "" those of the
            application's own help.
    """
    own = _examples(application, examples[""])
    command_line = _plain(context_settings=_WIDE, epilog=own)
    command_line.callback(
        invoke_without_command=True, help=default.__doc__, context_settings=_WIDE, epilog=own
    )(_in_one_line(default, application))
    for name, command in commands.items():
        own = _examples(application, _calls(name, examples))
        command_line.command(name, context_settings=_WIDE, epilog=own)(
            _in_one_line(command, application)
        )
    _call(command_line)


def _in_one_line(tool: Callable[..., None], application: str = "") -> Callable[..., None]:
    @wraps(tool)
    def run(**options: object) -> None:
        try:
            tool(**options)
        except TidemarkError as error:
            named = f"{application}: " if application else ""
            typer.echo(f"{named}error: {harmless(str(error))}", err=True)
            raise typer.Exit(error.exit_status) from None

    return run


def _calls(name: str, examples: Mapping[str, Sequence[str]]) -> list[str]:
    return [f"{name} {options}".strip() for options in examples[name]]


def _examples(application: str, calls: Sequence[str], called_as: str | None = None) -> str:
    """Return the end of a help text; the control character makes click keep the line breaks."""
    name = called_as or program(application)
    lines = [f"  {name} {call}".rstrip() for call in calls]
    return "\n".join(["\b", "Examples:", *lines])


def _runs(application: str, command: Command) -> Callable[..., None]:
    """Return a command that runs its job and also has the options of every run."""

    @wraps(command)
    def run(*, run_id: str | None, report: Path | None, as_json: bool, **options: object) -> None:
        job = command(**options)
        if job is not None:
            run_application(
                application,
                job.work,
                window=job.window,
                run_id=run_id,
                report_file=report,
                as_json=as_json,
                dry_run=job.dry_run,
            )

    own_parameters = inspect.signature(command, eval_str=True).parameters.values()
    parameters = [
        *(parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in own_parameters),
        *_RUN_OPTIONS,
    ]
    # Typer reads both the signature and the annotations.
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _call(command_line: typer.Typer) -> None:
    # By default the name would depend on how Python was started.
    command_line(prog_name=Path(sys.argv[0]).name)


def _plain(**options: Any) -> typer.Typer:
    return typer.Typer(
        add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, **options
    )
