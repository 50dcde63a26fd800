"""What a run of project would do, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemark.application import Run
from tidemark.errors import HistoryPurged
from tidemark.ledger import applications
from tidemark.ledger.pieces import Entry, Piece, Pieces, State
from tidemark.projection.definition import Definition
from tidemark.retention.purged import emptied_buckets
from tidemark.settings import Settings
from tidemark.window import Window, from_millis

APPLICATION = applications.PROJECT
NOT_VALIDATED = "not validated"


@dataclass(frozen=True)
class Work:
    """The pieces of one projection; those in `held` wait for validate."""

    definition: Definition
    ledger: Pieces
    pieces: Sequence[Piece]
    held: frozenset[int]

    @property
    def time_buckets(self) -> list[int]:
        """The time buckets to process, ascending."""
        return [piece.time_bucket for piece in self.pieces if piece.time_bucket not in self.held]

    def lines(self) -> list[str]:
        """The plan for people: each piece, why it is in it, and whether it is held."""
        return [
            f"{self.definition.name}  {from_millis(piece.time_bucket):%Y-%m-%d %H:%M}"
            f"  {piece.reason}"
            + (f", held: {NOT_VALIDATED}" if piece.time_bucket in self.held else "")
            for piece in self.pieces
        ]


def ledger(run: Run, definition: Definition) -> Pieces:
    """The pieces of one projection on one journal: one for each time bucket."""
    return Pieces(
        run.control,
        run.settings.keyspace,
        APPLICATION,
        definition.subject(run.settings.journal_keyspace),
        definition.fingerprint,
    )


def plan(run: Run, definition: Definition, window: Window, *, force: bool) -> Work:
    """The projection's pieces in the window, and older ones left unfinished.

    A piece is held until validate is done with its time bucket. `force` runs those of the window
    all the same, and those that are done again.

    Raises:
        DefinitionError: a projection of mode upsert or append changed without a higher version.
        HistoryPurged: the tag views of a bucket to process were purged and not written again.
        CassandraUnavailable: a statement failed.
    """
    settings = run.settings
    pieces_ledger = ledger(run, definition)
    if definition.mode.is_versioned:
        _require_new_version(definition, pieces_ledger.entries())
    in_window = set(window.buckets(settings.bucket_size))
    pieces = pieces_ledger.plan(in_window, force=force)
    ready = validated(run, settings) | (in_window if force else set())
    held = frozenset(piece.time_bucket for piece in pieces if piece.time_bucket not in ready)
    work = Work(definition, pieces_ledger, pieces, held)
    if definition.tags is not None:
        _require_rows(work, emptied_buckets(run.control, settings))
    return work


def _require_rows(work: Work, emptied: frozenset[int]) -> None:
    """A purged bucket reads as empty: its result would be replaced by nothing, or never be made."""
    gone = [bucket for bucket in work.time_buckets if bucket in emptied]
    if gone:
        raise HistoryPurged(
            f"projection {work.definition.name} would process {len(gone)} time buckets whose tag"
            f" views purge has deleted, the first is {from_millis(gone[0]):%Y-%m-%d %H:%M}",
            where=str(work.definition.file),
            do="leave them out of the window, or write them again with tag_write.py --force",
        )


def validated(run: Run, settings: Settings) -> set[int]:
    """The time buckets that validate is done with.

    Raises:
        CassandraUnavailable: the statement failed.
    """
    return Pieces(
        run.control, settings.keyspace, applications.VALIDATE, settings.journal_keyspace
    ).done()


def _require_new_version(definition: Definition, entries: Sequence[Entry]) -> None:
    """The version decides between two rows of one event, so it must tell them apart."""
    used = {
        entry.definition_version
        for entry in entries
        if entry.definition_version and entry.state is not State.HELD
    }
    highest = max((int(version.split("-")[0]) for version in used), default=0)
    is_changed = any(
        version != definition.fingerprint and int(version.split("-")[0]) >= definition.version
        for version in used
    )
    if is_changed:
        raise definition.error(
            f"{definition.name} has changed, but version {highest} was used before",
            f"write version {highest + 1}, so that its rows replace those of the old definition",
            definition.header_lines["version"],
        )
