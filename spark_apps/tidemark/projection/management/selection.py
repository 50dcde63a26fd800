"""The projections that a command names, once the tables that they read are checked."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.application import preflight
from tidemark.context import RunContext
from tidemark.projection.definition import catalog
from tidemark.projection.definition.model import Definition


def select(run: RunContext, names: Sequence[str]) -> list[Definition]:
    """Load the projections of these names, or all of them, and check the journal that they read.

    Where all of them read kafka-journal, Pekko's tables are not needed.

    Raises:
        InvalidInput: a projection is unknown.
        DefinitionError: a projection file cannot be used.
        SchemaMismatch: the journal's tables are missing or of another shape.
    """
    definitions = catalog.select(run.settings.projections_dir, names)
    preflight.check_journal(run, has_journal=catalog.reads_journal(definitions))
    return definitions


def select_one(run: RunContext, name: str) -> Definition:
    """Load one projection and check the journal that it reads; errors as `select` raises them."""
    [definition] = select(run, [name])
    return definition
