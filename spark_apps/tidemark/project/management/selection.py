"""The projections that a command names, once the tables that they read are checked."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.application import preflight
from tidemark.context import RunContext
from tidemark.errors import InvalidInput, all_of
from tidemark.project.definition import catalog
from tidemark.project.definition.catalog import Catalog
from tidemark.project.definition.model import Definition


def select_usable(run: RunContext, names: Sequence[str], *, with_rollups: bool = False) -> Catalog:
    """Read the projections of these names, or all of them, and check the journal that they read.

    Where all of them read kafka-journal, Pekko's tables are not needed.

    Args:
        run: the context of the run.
        names: the projections; all if empty.
        with_rollups: whether the command can do something with rollups.

    Raises:
        InvalidInput: a projection is unknown, or a rollup that the command cannot use.
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
    """Read projections as `select_usable`, for a change of all of them or none.

    Raises:
        InvalidInput: as `select_usable` raises it, or a file cannot be used.
        SchemaMismatch: the journal's tables are missing or of another shape.
    """
    selected = select_usable(run, names, with_rollups=with_rollups)
    if error := all_of(selected.errors):
        raise error
    return [*selected.definitions, *(rollup.definition for rollup in selected.rollups)]


def select_one(run: RunContext, name: str, *, with_rollups: bool = False) -> Definition:
    """Read one projection; errors as `select` raises them."""
    [definition] = select(run, [name], with_rollups=with_rollups)
    return definition
