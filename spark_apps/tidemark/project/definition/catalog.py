"""Reads all projection files of a directory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tidemark.errors import DefinitionError, InvalidInput
from tidemark.installation import users_files
from tidemark.project.definition.decoder import MODULES_DIR
from tidemark.project.definition.file import read
from tidemark.project.definition.model import Definition, Mode
from tidemark.project.definition.source import ReadModel
from tidemark.user_files.directory import require_directory
from tidemark.user_files.python_file import is_definition

SHIPPED_DIR = users_files("sql/projections")
"""The default of TIDEMARK_PROJECTIONS_DIR."""
_NAME = re.compile(rb"""\bname\s*[:=]\s*["']?(\w+)""")


@dataclass(frozen=True)
class Unusable:
    """A definition that cannot be used.

    Attributes:
        name: name of the projection; a guess if the header cannot be read.
        error: reason why the definition cannot be used.
    """

    file: Path
    name: str
    error: DefinitionError


@dataclass(frozen=True)
class Rollup:
    """A projection of mode rollup; `source` is the projection whose read model it reads."""

    definition: Definition
    source: Definition


@dataclass(frozen=True)
class Catalog:
    """The definitions of a directory.

    Attributes:
        definitions: usable projections of events, sorted by name.
        rollups: usable rollups, sorted by name.
        unusable: all other definitions.
    """

    definitions: Sequence[Definition]
    rollups: Sequence[Rollup]
    unusable: Sequence[Unusable]

    @property
    def sources(self) -> list[Definition]:
        """The projections of events, and the projections that rollups read."""
        return [*self.definitions, *(rollup.source for rollup in self.rollups)]

    @property
    def errors(self) -> list[DefinitionError]:
        """The reasons why definitions cannot be used."""
        return [broken.error for broken in self.unusable]


def read_all(directory: Path) -> Catalog:
    """Read every definition in `directory`; a broken definition does not hide the others.

    SQL and Python definitions share the directory; for the repository's own directory, Python
    definitions may also be in `include/projections`. A Python file that does not import the
    decorator is a module of the user's, and is skipped. Definitions of the same name are unusable.
    """
    require_directory(directory, "TIDEMARK_PROJECTIONS_DIR", "the projection files")
    by_name: dict[str, list[Definition]] = {}
    unusable = []
    for file in _files(directory):
        try:
            content = file.read_bytes()
            if file.suffix == ".py" and not is_definition(file):
                continue
            definition = read(file)
        except DefinitionError as error:
            match = _NAME.search(content)
            unusable.append(Unusable(file, match[1].decode() if match else file.stem, error))
        except OSError as error:
            what, do = f"the file cannot be read: {error.strerror}", "correct it, or remove it"
            unusable.append(
                Unusable(file, file.stem, DefinitionError(what, where=str(file), do=do))
            )
        else:
            by_name.setdefault(definition.name, []).append(definition)
    for same in by_name.values():
        unusable += [_same_name(definition, same) for definition in same if len(same) > 1]
    usable = {name: same[0] for name, same in sorted(by_name.items()) if len(same) == 1}
    rollups, unusable_rollups = _rollups(list(usable.values()), unusable)
    of_events = [each for each in usable.values() if not isinstance(each.source, ReadModel)]
    return Catalog(of_events, rollups, [*unusable, *unusable_rollups])


def _rollups(
    usable: Sequence[Definition], unusable: Sequence[Unusable]
) -> tuple[list[Rollup], list[Unusable]]:
    """Return the rollups among definitions, the usable and the unusable."""
    by_name = {definition.name: definition for definition in usable}
    rollups, unusable_rollups = [], []
    for definition in usable:
        if isinstance(definition.source, ReadModel):
            source = by_name.get(definition.source.projection)
            others = [other for other in usable if other is not definition]
            if problem := _rollup_problem(definition, source, others, unusable):
                unusable_rollups.append(Unusable(definition.file, definition.name, problem))
            elif source is not None:
                rollups.append(Rollup(definition, source))
    return rollups, unusable_rollups


def _rollup_problem(
    definition: Definition,
    source: Definition | None,
    others: Sequence[Definition],
    unusable: Sequence[Unusable],
) -> DefinitionError | None:
    """Return why a rollup cannot read its source or write its target, or None."""
    name, line = definition.source.input, definition.header_lines["source"]
    tables = {
        table: other.name for other in others for table in (other.target, other.template_target)
    }
    if source is None and any(broken.name == name for broken in unusable):
        what, do = f"the projection {name} cannot be used", "correct its definition"
    elif source is None:
        what, do = f"there is no projection {name}", "name one of this directory"
    elif source.mode is not Mode.BUCKET:
        what = f"the projection {name} has mode {source.mode}"
        do = "name a projection of mode bucket, whose runs replace time buckets"
    elif source.connection:
        what = f"mode rollup does not read PostgreSQL, where the projection {name} writes"
        do = "name a projection with a target in Cassandra, or make a view in PostgreSQL"
    elif definition.target in tables:
        line = definition.header_lines["target"]
        what = (
            f"the table {definition.target} is that of the projection {tables[definition.target]}"
        )
        do = "give the rollup a table of its own: it deletes every row that is not in its result"
    else:
        return None
    return definition.error(what, do, line)


def _files(directory: Path) -> list[Path]:
    further_directories = [MODULES_DIR] if directory == SHIPPED_DIR else []
    modules = sorted(
        file for folder in (directory, *further_directories) for file in folder.glob("*.py")
    )
    return sorted(directory.glob("*.sql")) + modules


def _same_name(definition: Definition, definitions: Sequence[Definition]) -> Unusable:
    other = next(other for other in definitions if other is not definition)
    error = definition.error(
        f"the name {definition.name} is taken by {other.file.name}",
        "give each projection a name of its own",
        definition.header_lines["name"],
    )
    return Unusable(definition.file, definition.name, error)


def load(directory: Path) -> list[Definition]:
    """Load the projections of events in `directory`, for callers that must know all of them.

    Raises:
        DefinitionError: a definition of the directory cannot be used.
    """
    catalog = read_all(directory)
    for error in catalog.errors:
        raise error
    return list(catalog.definitions)


def select(directory: Path, names: Sequence[str], *, with_rollups: bool = False) -> Catalog:
    """Read the definitions with these names; all definitions if `names` is empty.

    `with_rollups` adds the rollups over these projections.

    Raises:
        InvalidInput: no projection has such a name.
    """
    catalog = read_all(directory)
    if not names:
        return catalog
    selected = Catalog(
        [definition for definition in catalog.definitions if definition.name in names],
        [
            rollup
            for rollup in catalog.rollups
            if rollup.definition.name in names or (with_rollups and rollup.source.name in names)
        ],
        [broken for broken in catalog.unusable if broken.name in names],
    )
    unknown = set(names).difference(
        (definition.name for definition in selected.definitions),
        (rollup.definition.name for rollup in selected.rollups),
        (broken.name for broken in selected.unusable),
    )
    if unknown:
        usable = [*catalog.definitions, *(rollup.definition for rollup in catalog.rollups)]
        usable_names = ", ".join(definition.name for definition in usable)
        broken_files = ", ".join(broken.file.name for broken in catalog.unusable)
        raise InvalidInput(
            f"no projection is named {', '.join(sorted(unknown))}",
            where="--projection",
            do=(f"there are: {usable_names}" if usable_names else f"{directory} has none")
            + (f"; these files cannot be used: {broken_files}" if broken_files else ""),
        )
    return selected


def reads_journal(definitions: Sequence[Definition]) -> bool:
    """Return whether any definition needs the journal keyspace; true if there is no definition."""
    return not definitions or any(definition.source.reads_journal for definition in definitions)
