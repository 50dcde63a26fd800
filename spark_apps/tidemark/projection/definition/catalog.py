"""The projection files of a directory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tidemark.errors import DefinitionError, InvalidInput
from tidemark.headed_files.directory import require_directory
from tidemark.headed_files.python_file import is_definition
from tidemark.installation import users_files
from tidemark.projection.definition.decoder import MODULES_DIR
from tidemark.projection.definition.file import read
from tidemark.projection.definition.model import Definition, Mode
from tidemark.projection.definition.source import ReadModel

SHIPPED_DIR = users_files("sql/projections")
"""The default of TIDEMARK_PROJECTIONS_DIR."""
_NAME = re.compile(rb"""\bname\s*[:=]\s*["']?(\w+)""")


@dataclass(frozen=True)
class Unusable:
    """A definition that cannot be used.

    Attributes:
        file: where it is.
        name: the projection's name; a guess if the header cannot be read.
        error: why it cannot be used.
    """

    file: Path
    name: str
    error: DefinitionError


@dataclass(frozen=True)
class Rollup:
    """A projection of mode rollup.

    Attributes:
        definition: its own.
        source: that of the projection whose read model it reads.
    """

    definition: Definition
    source: Definition


@dataclass(frozen=True)
class Catalog:
    """Definitions of a directory.

    Attributes:
        definitions: those of projections of events that can be used, by name.
        rollups: those of mode rollup that can be used, by name.
        unusable: the others.
    """

    definitions: Sequence[Definition]
    rollups: Sequence[Rollup]
    unusable: Sequence[Unusable]

    @property
    def sources(self) -> list[Definition]:
        """The projections of events, and those that rollups read."""
        return [*self.definitions, *(rollup.source for rollup in self.rollups)]

    @property
    def errors(self) -> list[DefinitionError]:
        """Why definitions cannot be used."""
        return [broken.error for broken in self.unusable]


def read_all(directory: Path) -> Catalog:
    """Read every definition in `directory`; one that cannot be used does not hide the others.

    Definitions in Python lie beside the SQL files, and beside the repository's own SQL files in
    `include/projections` too. A Python file that does not import the decorator is a module of the
    user's, and is skipped. Of two definitions with one name, neither can be used.

    Raises:
        InvalidInput: there is no such directory.
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
            named = _NAME.search(content)
            unusable.append(Unusable(file, named[1].decode() if named else file.stem, error))
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
    rollups, refused = _rollups(list(usable.values()), unusable)
    of_events = [each for each in usable.values() if not isinstance(each.source, ReadModel)]
    return Catalog(of_events, rollups, [*unusable, *refused])


def _rollups(
    usable: Sequence[Definition], unusable: Sequence[Unusable]
) -> tuple[list[Rollup], list[Unusable]]:
    """Return the rollups among definitions, and those that cannot be used."""
    by_name = {definition.name: definition for definition in usable}
    rollups, refused = [], []
    for definition in usable:
        if isinstance(definition.source, ReadModel):
            source = by_name.get(definition.source.projection)
            others = [other for other in usable if other is not definition]
            if problem := _rollup_problem(definition, source, others, unusable):
                refused.append(Unusable(definition.file, definition.name, problem))
            elif source is not None:
                rollups.append(Rollup(definition, source))
    return rollups, refused


def _rollup_problem(
    definition: Definition,
    source: Definition | None,
    others: Sequence[Definition],
    unusable: Sequence[Unusable],
) -> DefinitionError | None:
    """Return why a rollup cannot read its source, or write its target; or None."""
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
    also = [MODULES_DIR] if directory == SHIPPED_DIR else []
    modules = sorted(file for place in (directory, *also) for file in place.glob("*.py"))
    return sorted(directory.glob("*.sql")) + modules


def _same_name(definition: Definition, same: Sequence[Definition]) -> Unusable:
    other = next(other for other in same if other is not definition)
    error = definition.error(
        f"the name {definition.name} is taken by {other.file.name}",
        "give each projection a name of its own",
        definition.header_lines["name"],
    )
    return Unusable(definition.file, definition.name, error)


def load(directory: Path) -> list[Definition]:
    """Load the projections of events in `directory`, by name, for who must know all of them.

    Raises:
        InvalidInput: there is no such directory.
        DefinitionError: a file cannot be used, or two have the same name.
    """
    catalog = read_all(directory)
    for error in catalog.errors:
        raise error
    return list(catalog.definitions)


def select(directory: Path, names: Sequence[str], *, with_rollups: bool = False) -> Catalog:
    """Read the definitions of the given names; all definitions without a name.

    Args:
        directory: of the projection files.
        names: the projections.
        with_rollups: whether to add the rollups over these projections.

    Raises:
        InvalidInput: there is no such directory or name.
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
        known = ", ".join(definition.name for definition in usable)
        broken_files = ", ".join(broken.file.name for broken in catalog.unusable)
        raise InvalidInput(
            f"no projection is named {', '.join(sorted(unknown))}",
            where="--projection",
            do=(f"there are: {known}" if known else f"{directory} has none")
            + (f"; these files cannot be used: {broken_files}" if broken_files else ""),
        )
    return selected


def reads_journal(definitions: Sequence[Definition]) -> bool:
    """Return whether any definition needs the journal keyspace; true without definitions."""
    return not definitions or any(definition.source.reads_journal for definition in definitions)
