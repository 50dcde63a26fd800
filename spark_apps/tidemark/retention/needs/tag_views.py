"""Which tags the readers of tag views read, and which time buckets they have consumed."""

from __future__ import annotations

from collections.abc import Collection

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.ledger.pieces import Pieces, State
from tidemark.projection.definition import catalog
from tidemark.projection.offset_store import late
from tidemark.projection.offset_store.offsets import OffsetStore
from tidemark.projection.planning import history
from tidemark.projection.planning.plan import APPLICATION
from tidemark.retention.plan import Need
from tidemark.settings import Settings


def needs_of_projections(control: Control, settings: Settings) -> list[Need]:
    """Return the need of every projection that reads tag views.

    A time bucket that an older definition processed is not done: it will be processed again. Nor is
    a time bucket with late rows that the projection has not consumed. A projection that never ran
    has no done time buckets.

    Raises:
        InvalidInput: there is no directory of projection files.
        DefinitionError: a projection file cannot be used, so that its needs are unknown; or its
            `from` does not begin a time bucket.
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
        begin = history.begin_of(definition, settings.bucket_size)
        needs.append(Need(definition.name, tags, frozenset(done), begin=begin))
    return needs


def absent_projections(control: Control, settings: Settings) -> list[Need]:
    """Return the needs of projections that have pieces in the ledger, but no file.

    The reason may be a failed checkout or a directory that is not mounted. The tags of such a
    projection are unknown, so it may need every time bucket that it is not done with.

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


def absent_lines(run: RunContext, given_up: Collection[str]) -> list[str]:
    """Return a line for each projection without a file that holds back, and how to give it up.

    Raises:
        InvalidInput: there is no directory of projection files.
        DefinitionError: a projection file cannot be used, so that its needs are unknown.
    """
    return [
        f"{need.projection} holds back what it is not done with: it has run, but has no file in"
        f" {run.settings.projections_dir}; if it is gone for good, `purge.py --give-up"
        f" {need.projection} --apply`"
        for need in absent_projections(run.control, run.settings)
        if need.projection not in given_up
    ]
