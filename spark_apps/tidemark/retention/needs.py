"""What the projections have processed, for those who want to delete what they read."""

from __future__ import annotations

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.ledger.pieces import Pieces, State
from tidemark.projection.definition import catalog
from tidemark.projection.offset_store import late
from tidemark.projection.offset_store.offsets import OffsetStore
from tidemark.projection.planning.plan import APPLICATION
from tidemark.retention.plan import Need
from tidemark.settings import Settings


def needs_of_projections(control: Control, settings: Settings) -> list[Need]:
    """Every projection that reads tag views, with its tags and the time buckets it is done with.

    A time bucket that an older definition processed is not done: it will be processed again. Nor is
    one with late rows that the projection has not consumed. A projection that never ran has none.

    Raises:
        InvalidInput: there is no directory of projection files.
        DefinitionError: a projection file cannot be used, so that its needs are unknown.
    """
    needs = []
    for definition in catalog.load(settings.projections_dir):
        if not definition.source.reads_tag_views:
            continue
        store = OffsetStore(control, settings, definition)
        version = definition.fingerprint
        done = Pieces.of(control, settings, APPLICATION, store.subject, version).done()
        done -= late.unconsumed(store, done)
        tags = frozenset(definition.source.series_tags)
        needs.append(Need(definition.name, tags, frozenset(done)))
    return needs


def absent_projections(control: Control, settings: Settings) -> list[Need]:
    """Projections with pieces in the ledger whose file is not there, nobody knows why.

    A checkout that failed, a directory that is not mounted: what they read is unknown, so they may
    need every time bucket that they are not done with.

    Raises:
        InvalidInput: there is no directory of projection files.
        DefinitionError: a projection file cannot be used, so that its needs are unknown.
    """
    prefix = f"{settings.journal_keyspace}/"
    known = {definition.name for definition in catalog.load(settings.projections_dir)}
    subjects = {
        row["subject"]
        for row in control.execute(
            "SELECT DISTINCT application, subject, bucket_size FROM"
            f" {table(settings.keyspace, 'piece')}"
        )
        if row["application"] == APPLICATION and row["subject"].startswith(prefix)
    }
    absent = []
    for subject in sorted(subjects):
        name = subject.removeprefix(prefix).partition("@v")[0]
        if name in known:
            continue
        pieces = Pieces.of(control, settings, APPLICATION, subject).entries()
        done = frozenset(piece.time_bucket for piece in pieces if piece.state is State.DONE)
        absent.append(Need(name, None, done, subject))
    return absent
