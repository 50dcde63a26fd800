"""The tags that readers of tag views read, and the time buckets that they have consumed."""

from __future__ import annotations

from collections.abc import Collection

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.ledger.pieces import Pieces
from tidemark.project.definition import catalog
from tidemark.project.offset_store import late
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning import history
from tidemark.project.planning.plan import APPLICATION
from tidemark.purge.needs.consumers import replaced_release
from tidemark.purge.needs.readers import readers_of, tag_needs
from tidemark.purge.plan import ReaderNeed
from tidemark.settings import Settings


def all_needs(
    control: Control, settings: Settings, given_up: Collection[str] = ()
) -> list[ReaderNeed]:
    """Return the needs of all readers of tag views, with projections that have no file.

    `given_up` are the names of projections without a file, and of other readers, that need nothing.
    """
    absent = absent_projections(control, settings)
    return [
        *needs_of_projections(control, settings),
        *(need for need in absent if need.projection not in given_up),
        *tag_needs(readers_of(control, settings, given_up), settings.bucket_size),
    ]


def needs_of_projections(control: Control, settings: Settings) -> list[ReaderNeed]:
    """Return the need of every projection that reads tag views.

    A time bucket that an older definition processed is not done: it will be processed again. Nor is
    a time bucket with late rows that the projection has not consumed. A projection that never ran
    has no done time buckets. While a blue/green version is built, the live one has needs too:
    a return to its file continues from there.

    Raises:
        InvalidInput: there is no directory of projection files.
        DefinitionError: a projection file cannot be used, so that its needs are unknown; or its
            `from` does not begin a time bucket.
    """
    needs = []
    size = settings.bucket_size
    for definition in catalog.load(settings.projections_dir):
        if not definition.source.reads_tag_views:
            continue
        store = OffsetStore(control, settings, definition)
        version = definition.fingerprint
        done = Pieces.of(control, settings, APPLICATION, store.subject, version).done()
        done = done - late.unconsumed(store, done)
        tags = frozenset(definition.source.series_tags)
        begin = history.begin_of(definition, size)
        needs.append(ReaderNeed(definition.name, tags, done, begin=begin))
        former = replaced_release(control, settings, definition)
        if former is not None:
            subject = former.subject(settings.journal_keyspace)
            done_then = Pieces.of(control, settings, APPLICATION, subject).standing().done
            needs.append(
                ReaderNeed(f"{former.name}@v{former.version}", tags, done_then, begin=begin)
            )
    return needs


def absent_projections(control: Control, settings: Settings) -> list[ReaderNeed]:
    """Return the needs of projections that have pieces in the ledger, but no file.

    The reason may be a failed checkout or a directory that is not mounted. The tags of such a
    projection are unknown, so it may need every time bucket that it has not done.

    Raises:
        InvalidInput: there is no directory of projection files.
        DefinitionError: a projection file cannot be used, so that its needs are unknown.
    """
    prefix = f"{settings.journal_keyspace}/"
    names_with_file = {definition.name for definition in catalog.load(settings.projections_dir)}
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
        if name in names_with_file:
            continue
        done = Pieces.of(control, settings, APPLICATION, subject).standing().done
        absent.append(ReaderNeed(name, None, done, subject))
    return absent


def absent_lines(run: RunContext, given_up: Collection[str]) -> list[str]:
    """Return a line for each projection without a file that holds data back, with the remedy."""
    return [
        f"{need.projection} holds back what it is not done with: it has run, but has no file in"
        f" {run.settings.projections_dir}; if it is gone for good, `purge.py --give-up"
        f" {need.projection} --apply`"
        for need in absent_projections(run.control, run.settings)
        if need.projection not in given_up
    ]
