"""The reference page of the command lines, from the applications' own declarations."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args

from tests.command_lines import SPARK_APPS, command_line
from tests.reference.markdown import code, plain, table

APPLICATIONS = sorted(file.stem for file in SPARK_APPS.glob("*.py"))
_HEAD = """# Commands

Every application, its commands and their options, as `--help` shows them. Settings are environment
variables: see [Settings](settings.md).
"""
_EXAMPLES = "Examples:"


def page() -> str:
    """Return the page."""
    parts = [_HEAD]
    for application in APPLICATIONS:
        parts += _sections(f"{application}.py", command_line(application), 2)
    return "\n\n".join(parts) + "\n"


def _sections(name: str, command: Any, level: int) -> Iterator[str]:
    yield f"{'#' * level} `{name}`"
    yield _prose(command.help or "")
    rows = [_row(parameter) for parameter in command.params if parameter.name != "help"]
    if rows:
        yield table(("option", "value", "default", "meaning"), rows)
    calls = (command.epilog or "").partition(_EXAMPLES)[2].strip()
    if calls:
        lines = "\n".join(line.strip() for line in calls.splitlines())
        yield f"```sh\n{lines}\n```"
    for own_name, subcommand in sorted(getattr(command, "commands", {}).items()):
        yield from _sections(f"{name} {own_name}", subcommand, min(level + 1, 4))


def _row(parameter: Any) -> tuple[str, str, str, str]:
    is_argument = parameter.param_type_name == "argument"
    name = parameter.metavar or parameter.name.upper() if is_argument else parameter.opts[0]
    return (
        code(name),
        "" if is_argument or getattr(parameter, "is_flag", False) else code(_value(parameter)),
        _default(parameter),
        plain(parameter.help or ""),
    )


def _value(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    annotation = parameter.type_descriptor.annotation
    [element] = get_args(annotation) or [annotation]
    if issubclass(element, Enum):
        return " or ".join(str(choice.value) for choice in element)
    return str(element.__name__).upper()


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return plain(parameter.show_default)
    default = parameter.default
    if default in (None, False, (), []) or callable(default):
        return ""
    return code(str(getattr(default, "value", default)))


def _prose(text: str) -> str:
    """Return a help text as paragraphs, each on a line."""
    paragraphs = text.replace("\b\n", "").split("\n\n")
    return "\n\n".join(plain(paragraph) for paragraph in paragraphs)
