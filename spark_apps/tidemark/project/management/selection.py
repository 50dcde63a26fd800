"""Selects the projections of a command, and checks the tables that they read."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.application import preflight
from tidemark.context import RunContext
from tidemark.errors import InvalidInput, all_of
from tidemark.project.definition import catalog
from tidemark.project.definition.catalog import Catalog
from tidemark.project.definition.model import Definition
from tidemark.project.planning import source_check


def select_usable(run: RunContext, names: Sequence[str], *, with_rollups: bool = False) -> Catalog:
    """Read the projections with these names, all if empty, and check the journal that they read.

    If all read kafka-journal, Pekko's tables are not needed. `with_rollups` says whether the
    command accepts rollups.

    Raises:
        InvalidInput: a projection is unknown, or the command does not accept a rollup.
        SchemaMismatch: the journal's tables are missing or of another shape.
    """
    selected = catalog.select(run.settings.projections_dir, names)
    if names and not with_rollups:
        for rollup in selected.rollups:
            raise InvalidInput(
                f"{rollup.definition.name} has mode rollup: it has no events, offsets or versions",
                where="PROJECTION",
                do=f"name the projection that it reads, {rollup.source.name}",
            )
    preflight.check_journal(run, has_journal=catalog.reads_journal(selected.sources))
    return selected


def select(
    run: RunContext, names: Sequence[str], *, with_rollups: bool = False
) -> Sequence[Definition]:
    """Read projections like `select_usable`, but raise the errors of files that cannot be used."""
    selected = select_usable(run, names, with_rollups=with_rollups)
    if error := all_of(selected.errors):
        raise error
    for definition in selected.definitions:
        source_check.require_of_journal(run.settings, definition)
    return [*selected.definitions, *(rollup.definition for rollup in selected.rollups)]


def select_one(run: RunContext, name: str, *, with_rollups: bool = False) -> Definition:
    """Read one projection; errors are those of `select`."""
    [definition] = select(run, [name], with_rollups=with_rollups)
    return definition
