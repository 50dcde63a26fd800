"""Plans which time buckets of one projection a run processes, without Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice

from tidemark import clock
from tidemark.cassandra.schema import default_time_to_live
from tidemark.context import RunContext
from tidemark.errors import HistoryPurged
from tidemark.ledger import applications
from tidemark.ledger.frontier.state import LedgerState
from tidemark.ledger.piece import Piece, State
from tidemark.ledger.pieces import Pieces
from tidemark.ledger.purged import emptied_buckets, removed
from tidemark.partitioning import keys, slice_ranges
from tidemark.partitioning.keys import SliceRange
from tidemark.partitioning.slice_ranges import Slicing
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.project.definition.model import Definition
from tidemark.project.planning import history, live_release, source_check, target_check
from tidemark.project.position.ready import ready_buckets
from tidemark.text import counted
from tidemark.window import Window, from_millis, iso, to_millis

APPLICATION = applications.PROJECT


@dataclass(frozen=True)
class ProjectionPlan:
    """The pieces of one projection that a run will process, or keep waiting. No I/O.

    Times are epoch milliseconds.

    Attributes:
        pieces: pieces to process and held pieces.
        held: time buckets of pieces that are not ready, see `waits_for`.
        done: time buckets before `end` that are done by any version of the definition, including
            those to process again.
        first: the projection's first time bucket; it does not process older events.
        truncated_from: a new series whose first event is in this time bucket or a later one may
            have lost all earlier events to purge or a TTL; None if no series can have.
        end: the end of the window.
        known_from: the first time bucket of earlier plans: older events may count as consumed
            without having been processed; None without earlier plans.
        slicing: the slices to process; None for whole time buckets.
        postponed: pieces that are left to later runs.
        purged: the errors of time buckets to process whose tag views purge has deleted.
        changed: time buckets done by another version of the definition, which this one replaces.
    """

    definition: Definition
    pieces: Sequence[Piece]
    held: frozenset[int]
    done: Set[int]
    first: int
    truncated_from: int | None
    end: int
    known_from: int | None = None
    slicing: Slicing | None = None
    postponed: Sequence[Piece] = ()
    purged: Mapping[int, HistoryPurged] = field(default_factory=dict)
    changed: Set[int] = frozenset()

    @property
    def slices(self) -> SliceRange:
        """The slices whose events are read."""
        return slice_ranges.ALL if self.slicing is None else self.slicing.slices

    @property
    def waits_for(self) -> str:
        """What the held pieces wait for, as text for reports."""
        return self.definition.source.waits_for

    @property
    def ready(self) -> list[Piece]:
        """The pieces to process, oldest first."""
        return [piece for piece in self.pieces if piece.time_bucket not in self.held]

    @property
    def time_buckets(self) -> list[int]:
        """The time buckets to process, ascending."""
        return [piece.time_bucket for piece in self.ready]

    @property
    def purged_to_process(self) -> dict[int, HistoryPurged]:
        """The time buckets to process whose tag views purge has deleted, each with its error."""
        return {
            bucket: self.purged[bucket] for bucket in self.time_buckets if bucket in self.purged
        }

    def lines(self) -> list[str]:
        """Describe each piece in a line: why it is in the plan, and whether it is held."""
        return [
            f"{self.definition.name}  {from_millis(piece.time_bucket):%Y-%m-%d %H:%M}"
            f"  {piece.reason}"
            + (f", slices {slice_ranges.text(self.slices)}" if self.slicing is not None else "")
            + (", purged" if piece.time_bucket in self.purged else "")
            + (f", held: {self.waits_for}" if piece.time_bucket in self.held else "")
            for piece in self.pieces
        ]


def ledger(run: RunContext, definition: Definition) -> Pieces:
    """Return the ledger of one projection on one journal: a piece for each time bucket."""
    return Pieces.of(
        run.control,
        run.settings,
        APPLICATION,
        definition.subject(run.settings.journal_keyspace),
        definition.fingerprint,
    )


def plan(run: RunContext, definition: Definition, window: Window, *, force: bool) -> ProjectionPlan:
    """Plan the projection's pieces in the window, and older ones left unfinished or never started.

    Never started are ready time buckets between the projection's first piece and the window: their
    schedule was missed. A new projection begins with the complete history before the window
    (`history`); a blue/green version begins where the live version did.

    If the definition has changed and its mode replaces time buckets, all done buckets are processed
    again, the oldest first.

    A piece is held until its time bucket is ready. `force` processes the pieces of the window
    before they are ready, and again if they are done.

    Raises:
        SchemaMismatch, InvalidInput: from `source_check.require` or `target_check.require`.
        DefinitionError: a projection of mode upsert or append changed without a higher version;
            `from` does not begin a time bucket.
    """
    settings = run.settings
    source_check.require(run, definition)
    pieces_ledger = ledger(run, definition)
    state = pieces_ledger.standing()
    target_check.require(run, definition, state, force=force)
    if definition.mode.is_versioned:
        _require_new_version(definition, state)
    begin = history.begin_of(definition, settings.bucket_size)
    in_window = [bucket for bucket in window.buckets(settings.bucket_size) if bucket >= begin]
    end = to_millis(window.end)
    if not in_window:
        return ProjectionPlan(definition, [], frozenset(), frozenset(), begin, None, end)
    planned_before = state.known.within(history.ALL, end)
    live_buckets = live_release.inherited(run.control, settings, definition)
    history_buckets = () if live_buckets else history.find(run, definition, state, in_window[0])
    first = (
        planned_before | in_window | history_buckets | live_buckets.within(history.ALL, end)
    ).ranges[0][0]
    ready_by_source = ready_buckets(run, definition, first, end)
    changed = _changed(run, definition, state, begin, end)
    scheduled = pieces_ledger.schedule(
        Window(from_millis(in_window[0]), window.end),
        most=settings.catch_up_buckets,
        force=force,
        since=live_buckets,
        ready=ready_by_source,
        history=[bucket for bucket in history_buckets if bucket not in planned_before],
        changed=list(islice(changed, settings.catch_up_buckets)),
    )
    ready = ready_by_source | (set(in_window) if force else set())
    buckets = [piece.time_bucket for piece in scheduled.pieces]
    return ProjectionPlan(
        definition,
        scheduled.pieces,
        held=frozenset(bucket for bucket in buckets if bucket not in ready),
        done=state.done.within(history.ALL, end),
        first=first,
        truncated_from=_truncated_from(run, definition, first, ready_by_source),
        end=end,
        known_from=state.known.first,
        postponed=scheduled.postponed,
        purged=purged_buckets(
            run,
            definition,
            [bucket for bucket in buckets if bucket in ready],
        ),
        changed=changed,
    )


def _changed(
    run: RunContext, definition: Definition, state: LedgerState, begin: int, end: int
) -> TimeBuckets:
    """Find the time buckets to process again because the definition has changed.

    Modes that do not replace time buckets have a version in each row, and keep old rows. Buckets
    whose tag views purge has deleted cannot be processed again.
    """
    if not definition.mode.replaces_buckets:
        return TimeBuckets([], run.settings.bucket_size.milliseconds)
    changed = state.done.within(begin, end) - state.done_by(definition.fingerprint)
    return changed - purged_buckets(run, definition, changed).keys()


def _truncated_from(
    run: RunContext, definition: Definition, first: int, ready: TimeBuckets
) -> int | None:
    """Return `ProjectionPlan.truncated_from`.

    Where events expire, existing events older than the TTL were written without one, and so were
    all events before them. If the oldest time bucket is younger than the TTL, nothing has expired.
    """
    settings, now = run.settings, to_millis(clock.now())
    if definition.source.reads_tag_views:
        span = removed(run.control, settings, now).span()
        return history.ALL if span is not None and span[0] < first else None
    if settings.is_r2dbc:
        return None
    keyspace, _, name = definition.source.table(settings).partition(".")
    ttl = default_time_to_live(run.control, keyspace, name)
    if not ttl:
        return None
    expired_before = keys.time_bucket(now - ttl * 1000, settings.bucket_size)
    oldest = first if ready.first is None else min(first, ready.first)
    return expired_before if oldest < expired_before else None


def purged_buckets(
    run: RunContext, definition: Definition, time_buckets: Collection[int]
) -> dict[int, HistoryPurged]:
    """Find the time buckets whose tag views were purged and not written again, each with its error.

    They read as empty, so that their result would be deleted or never made.
    """
    if not (definition.source.reads_tag_views and time_buckets):
        return {}
    emptied = emptied_buckets(run.control, run.settings)
    error = HistoryPurged(
        "its tag views were deleted by purge",
        where=definition.name,
        do="write them again with tag_write.py --force, or go on without with --accept-purged",
    )
    return {bucket: error for bucket in time_buckets if bucket in emptied}


def require_rows(run: RunContext, definition: Definition, time_buckets: Collection[int]) -> None:
    """Refuse to plan emptied time buckets again.

    Raises:
        HistoryPurged: the tag views of one of them were purged and not written again.
    """
    if purged := purged_buckets(run, definition, time_buckets):
        raise HistoryPurged(
            f"projection {definition.name} would process {counted(len(purged), 'time bucket')}"
            " whose tag views purge has deleted, the first is"
            f" {from_millis(min(purged)):%Y-%m-%d %H:%M}",
            where=str(definition.file),
            do="leave them out of the window, or write them again with tag_write.py --force",
        )


def failed_since(run: RunContext, window: Window, definitions: Sequence[Definition]) -> list[str]:
    """Return a line if validate has failed time buckets of the window.

    Projections that had processed these buckets before keep their rows and show no problem.
    """
    if not any(definition.source.reads_journal for definition in definitions):
        return []
    ledger_of_validate = Pieces.of(run.control, run.settings, applications.VALIDATE)
    entries = ledger_of_validate.entries(to_millis(window.start), to_millis(window.end))
    failed = [entry for entry in entries if entry.state is State.FAILED]
    if not failed:
        return []
    first = iso(from_millis(min(entry.time_bucket for entry in failed)))
    return [
        f"validate has failed {counted(len(failed), 'time bucket')} of the window, the first is"
        f" {first}: read models that had processed them before are as they were"
    ]


def _require_new_version(definition: Definition, state: LedgerState) -> None:
    """Require a higher version of a changed definition: of two rows, the higher version wins."""
    used = state.versions | {
        entry.definition_version
        for entry in state.open_rows
        # A piece held by a gap was processed and has counts; one that waits for validate was not.
        if entry.definition_version and (entry.state is not State.HELD or entry.counts)
    }
    highest = max((int(version.split("-")[0]) for version in used), default=0)
    is_changed = any(
        version != definition.fingerprint and int(version.split("-")[0]) >= definition.version
        for version in used
    )
    if is_changed:
        raise definition.error(
            f"{definition.name} has changed, but version {highest} was used before",
            f"write version {highest + 1}, so that its rows replace those of the old definition;"
            " rows that it no longer has need `release: blue-green`",
            definition.header_lines["version"],
        )
