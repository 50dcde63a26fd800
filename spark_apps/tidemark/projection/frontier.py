"""What the projections have processed, for those who want to delete what they read."""

from __future__ import annotations

from tidemark.cassandra.control import Control
from tidemark.ledger.pieces import Pieces
from tidemark.projection import catalog, late
from tidemark.projection.plan import APPLICATION
from tidemark.retention.plan import Need
from tidemark.settings import Settings


def needs_of_projections(control: Control, settings: Settings) -> list[Need]:
    """Every projection that reads tag views, with its tags and the time buckets it is done with.

    A time bucket that an older definition processed is not done: it will be processed again. Nor is
    one with late rows that the projection has not consumed. A projection that never ran has none.

    Raises:
        InvalidInput: there is no directory of projection files.
        DefinitionError: a projection file cannot be used, so that its needs are unknown.
        CassandraUnavailable: a statement failed.
    """
    needs = []
    for definition in catalog.load(settings.projections_dir):
        if definition.tags is None:
            continue
        subject = definition.subject(settings.journal_keyspace)
        version = definition.fingerprint
        done = Pieces(
            control, settings.keyspace, APPLICATION, subject, settings.bucket_size, version
        ).done()
        done -= late.unconsumed(control, settings, subject, definition.tags, done)
        needs.append(Need(definition.name, frozenset(definition.tags), frozenset(done)))
    return needs
