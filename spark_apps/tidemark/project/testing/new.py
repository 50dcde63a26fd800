"""The command `new`: writes a first definition of a projection with its table and test."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from string import Template

from tidemark.errors import InvalidInput
from tidemark.installation import IS_CHECKOUT, SHIPPED, program
from tidemark.ledger.applications import PROJECT
from tidemark.project.definition.model import Mode
from tidemark.settings import Settings

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,47}")
_TARGET = re.compile(rf"{_NAME.pattern}\.{_NAME.pattern}")
Say = Callable[[str], None]
TEMPLATES_DIR = SHIPPED / "templates"
"""A directory per mode with files named after NAME, the projection, with $name and $target."""


def write(name: str, mode: Mode, target: str | None, say: Say) -> None:
    """Write the files of a new projection into the projections' directory.

    `target` is `keyspace.table`, by default `read_models.<name>`; in mode export a directory, by
    default `<name>`. `say` gets lines about the files written and the next steps.

    Raises:
        InvalidInput: name, mode, target or directory cannot be used, or a file already exists.
    """
    if not _NAME.fullmatch(name):
        what = "letters, digits and _, a letter first, at most 48"
        raise InvalidInput(f"the name {name!r} cannot be used", where="NAME", do=f"use {what}")
    if mode is Mode.ROLLUP:
        raise InvalidInput(
            "mode rollup has no template: it reads the read model of a projection that you have",
            where="--mode",
            do="write the file by the example of docs/projection-modes.md",
        )
    is_table = mode is not Mode.EXPORT
    target_name = target or (f"read_models.{name}" if is_table else name)
    if is_table and not _TARGET.fullmatch(target_name):
        raise InvalidInput(
            f"the target {target_name!r} is no table", where="--target", do="write keyspace.table"
        )
    files = _files(name, mode, target_name)
    directory = Settings.load().projections_dir
    if not directory.is_dir():
        raise InvalidInput(
            f"there is no directory {directory}", where="TIDEMARK_PROJECTIONS_DIR", do="make it"
        )
    if not IS_CHECKOUT and directory.is_relative_to(SHIPPED):
        raise InvalidInput(
            "the shipped definitions are part of the package, yours would be lost with it",
            where=str(directory),
            do="make the directory include/sql/projections here, or set TIDEMARK_PROJECTIONS_DIR",
        )
    existing_files = [file for file in files if (directory / file).exists()]
    if existing_files:
        raise InvalidInput(
            f"there already: {', '.join(existing_files)}",
            where=str(directory),
            do="choose another name",
        )
    for file, text in files.items():
        (directory / file).write_text(text)
        say(f"wrote {directory / file}")
    for line in _next_steps(directory, name, list(files)):
        say(line)


def _files(name: str, mode: Mode, target: str) -> dict[str, str]:
    words = {"name": name, "target": target}
    return {
        file.stem.replace("NAME", name): Template(file.read_text()).substitute(words)
        for file in sorted((TEMPLATES_DIR / mode).glob("*.template"))
    }


def _next_steps(directory: Path, name: str, files: list[str]) -> list[str]:
    window = "--window-start 2013-01-08 --window-end 2013-02-01"
    run = f"{program(PROJECT)} --projection {name} {window}"
    python = ".venv/bin/python " if IS_CHECKOUT else ""
    cql = "make cql ARGS='-f {}'" if IS_CHECKOUT else "cqlsh -f {}"
    table = ["  " + cql.format(directory / file) for file in files if file.endswith(".cql")]
    return [
        "next, over a window of your own:",
        f"  {python or 'python '}-m pytest {directory / f'test_{name}.py'}",
        f"  {python}{run} --dry-run --show",
        *table,
        f"  {python}{run}",
    ]
