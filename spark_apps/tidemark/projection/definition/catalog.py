"""The projection files of a directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidemark.errors import InvalidInput
from tidemark.headed_files.directory import require_directory
from tidemark.headed_files.python_file import is_definition
from tidemark.projection.definition.decoder import MODULES_DIR
from tidemark.projection.definition.file import read
from tidemark.projection.definition.model import Definition
from tidemark.settings import REPOSITORY

SHIPPED_DIR = REPOSITORY / "include" / "sql" / "projections"
"""The default of TIDEMARK_PROJECTIONS_DIR."""


def load(directory: Path) -> list[Definition]:
    """Load every definition in `directory`, by name.

    Definitions in Python lie beside the SQL files, and beside the repository's own SQL files in
    `include/projections` too. A Python file that does not import the decorator is a module of the
    user's, and is skipped.

    Raises:
        InvalidInput: there is no such directory.
        DefinitionError: a file cannot be used, or two have the same name.
    """
    require_directory(directory, "TIDEMARK_PROJECTIONS_DIR", "the projection files")
    by_name: dict[str, Definition] = {}
    for file in _files(directory):
        definition = read(file)
        if definition.name in by_name:
            raise definition.error(
                f"the name {definition.name} is taken by {by_name[definition.name].file.name}",
                "give each projection a name of its own",
                definition.header_lines["name"],
            )
        by_name[definition.name] = definition
    return [by_name[name] for name in sorted(by_name)]


def _files(directory: Path) -> list[Path]:
    also = [MODULES_DIR] if directory == SHIPPED_DIR else []
    modules = sorted(file for place in (directory, *also) for file in place.glob("*.py"))
    return sorted(directory.glob("*.sql")) + [file for file in modules if is_definition(file)]


def select(directory: Path, names: Sequence[str]) -> list[Definition]:
    """Select the definitions of the given names; all definitions without a name.

    Raises:
        InvalidInput: there is no such directory or name.
        DefinitionError: any file of the directory cannot be used.
    """
    definitions = load(directory)
    known = [definition.name for definition in definitions]
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise InvalidInput(
            f"no projection is named {', '.join(unknown)}",
            where="--projection",
            do=f"there are: {', '.join(known)}" if known else f"{directory} has none",
        )
    return [definition for definition in definitions if not names or definition.name in names]


def reads_journal(definitions: Sequence[Definition]) -> bool:
    """Return whether any definition needs the journal keyspace; true without definitions."""
    return not definitions or any(definition.source.reads_journal for definition in definitions)
