"""The projections that a command names, once the tables that they read are checked."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.application import preflight
from tidemark.context import RunContext
from tidemark.errors import all_of
from tidemark.projection.definition import catalog
from tidemark.projection.definition.catalog import Catalog
from tidemark.projection.definition.model import Definition


def select_usable(run: RunContext, names: Sequence[str]) -> Catalog:
    """Read the projections of these names, or all of them, and check the journal that they read.

    Where all of them read kafka-journal, Pekko's tables are not needed.

    Raises:
        InvalidInput: a projection is unknown.
        SchemaMismatch: the journal's tables are missing or of another shape.
    """
    selected = catalog.select(run.settings.projections_dir, names)
    preflight.check_journal(run, has_journal=catalog.reads_journal(selected.definitions))
    return selected


def select(run: RunContext, names: Sequence[str]) -> Sequence[Definition]:
    """Read projections as `select_usable`, for a change of all of them or none.

    Raises:
        InvalidInput: a projection is unknown, or its file cannot be used.
        SchemaMismatch: the journal's tables are missing or of another shape.
    """
    selected = select_usable(run, names)
    if error := all_of(selected.errors):
        raise error
    return selected.definitions


def select_one(run: RunContext, name: str) -> Definition:
    """Read one projection; errors as `select` raises them."""
    [definition] = select(run, [name])
    return definition
