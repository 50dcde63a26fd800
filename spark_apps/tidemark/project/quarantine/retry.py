"""The command `quarantine retry`: lets the next run process quarantined events again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby, islice

from tidemark.application.guarded_change import EnsureLocked, Plan
from tidemark.cassandra.control import Row
from tidemark.context import Outcome, RunContext
from tidemark.journals.pekko import series
from tidemark.journals.r2dbc import series as r2dbc_series
from tidemark.ledger import quarantine
from tidemark.ledger.quarantine import SKIPPED_BY_HAND, Place
from tidemark.partitioning import keys
from tidemark.project.definition.model import Definition, Mode
from tidemark.project.management.change import run_change
from tidemark.project.management.offset_move import restated
from tidemark.project.management.selection import select_one
from tidemark.project.offset_store import management_state, slice_records
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning.plan import ledger, require_rows
from tidemark.project.quarantine.choice import EventSelection, time_bucket
from tidemark.project.transformation.transform import SNAPSHOT
from tidemark.project.writing import fold
from tidemark.text import counted

_CHUNK_ROWS = 500


def retry(run: RunContext, name: str, choice: EventSelection, *, apply: bool) -> Outcome:
    """Plan the time buckets of quarantined events again for the next run, or show the plan.

    This excludes events that were skipped by hand, snapshots that no run reads again, and events
    that were deleted, or in mode fold whose persistence id's first events were deleted.

    Raises:
        InvalidInput: the projection is unknown, or no such event is in quarantine.
        HistoryPurged: the tag views of a time bucket were purged.
        LockHeld: a run works on the projection.
    """
    definition = select_one(run, name)
    place = choice.place(run, definition)
    return run_change(
        run,
        "quarantine retry",
        definition,
        lambda: _plan(run, definition, choice, place),
        apply=apply,
    )


@dataclass
class _RetryCounts:
    """Counts of quarantined events to process again, and of all others by the reason."""

    events: int = 0
    ids: int = 0
    by_hand: int = 0
    snapshots: int = 0
    deleted: int = 0
    time_buckets: set[int] = field(default_factory=set)

    @property
    def unchanged(self) -> int:
        """The number of events that are not processed again."""
        return self.by_hand + self.snapshots + self.deleted


def _plan(run: RunContext, definition: Definition, choice: EventSelection, place: Place) -> Plan:
    retry_counts, store = _RetryCounts(), OffsetStore.of(run, definition)
    pieces_ledger = ledger(run, definition)
    known_buckets = pieces_ledger.standing().known
    for persistence_id, rows in _by_id(_retried(run, definition, place, retry_counts)):
        retry_counts.ids += 1
        for row in rows:
            retry_counts.events += 1
            bucket = time_bucket(run, row)
            if definition.mode is Mode.FOLD and bucket not in known_buckets:
                bucket = _newest(run, store, persistence_id) or bucket
            retry_counts.time_buckets.add(bucket)
    choice.require_any(retry_counts.events + retry_counts.unchanged, definition.name)
    pieces = restated(pieces_ledger, retry_counts.time_buckets)
    require_rows(run, definition, [piece.time_bucket for piece in pieces])
    counts = {
        "events_retried": retry_counts.events,
        "persistence_ids": retry_counts.ids,
        "buckets_restated": len(pieces),
        "events_left": retry_counts.unchanged,
    }
    lines = _lines(definition, retry_counts, len(pieces))
    if not retry_counts.events:
        return Plan(counts, lines, None)

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        ensure_locked()
        # Rows of earlier releases of Tidemark have not set this mark.
        management_state.note_quarantined(store)
        if definition.mode is Mode.FOLD:
            rows_again = _retried(run, definition, place, _RetryCounts())
            ids = (persistence_id for persistence_id, _ in _by_id(rows_again))
            while chunk := list(islice(ids, _CHUNK_ROWS)):
                ensure_locked()
                fold.void_states(store, chunk)
        ensure_locked()
        pieces_ledger.restate(pieces, owner=run.owner)
        ensure_locked()
        slice_records.forget_buckets(store, retry_counts.time_buckets)
        return counts

    return Plan(counts, lines, apply)


def _lines(definition: Definition, counts: _RetryCounts, restated_buckets: int) -> list[str]:
    if not counts.events + counts.unchanged:
        return [f"{definition.name}: nothing is in quarantine"]
    lines = [
        f"{definition.name}: {counted(counts.events, 'event')} of"
        f" {counted(counts.ids, 'persistence id')} will be processed again by the next run, with"
        f" the other events of {counted(len(counts.time_buckets), 'time bucket')}"
    ]
    if open_count := len(counts.time_buckets) - restated_buckets:
        lines.append(f"{counted(open_count, 'time bucket')} of these would be processed anyway")
    if definition.mode is Mode.FOLD and counts.ids:
        lines.append("the states of these persistence ids are computed again from the first event")
    if counts.by_hand:
        lines.append(
            f"{counted(counts.by_hand, 'event')} stay: skipped by hand; `project.py set-offset`"
            " back processes them"
        )
    if counts.snapshots:
        lines.append(
            f"{counted(counts.snapshots, 'snapshot')} stay: they are read with the first events of"
            " their persistence ids alone; `project.py clear` processes them"
        )
    if counts.deleted:
        what = "they or the first events of their persistence ids were deleted from the journal"
        lines.append(f"{counted(counts.deleted, 'event')} stay: {what}")
    return lines


def _newest(run: RunContext, store: OffsetStore, persistence_id: str) -> int | None:
    """Return the time bucket of the last consumed event of a persistence id, if known.

    Any event of the id serves, since mode fold then reads the complete history of a void state.
    """
    for offset in store.offsets_of_id(persistence_id):
        if offset.event_timeuuid is not None:
            event_ms = series.epoch_ms(offset.event_timeuuid)
            return keys.time_bucket(event_ms, run.settings.bucket_size)
    return None


def _by_id(rows: Iterable[Row]) -> Iterator[tuple[str, Iterable[Row]]]:
    return groupby(rows, lambda row: str(row["persistence_id"]))


def _retried(
    run: RunContext, definition: Definition, place: Place, counts: _RetryCounts
) -> Iterator[Row]:
    """Yield the events to process again; all other events are counted in `counts`."""
    quarantined = quarantine.stream(run.control, run.settings, place)
    while chunk := list(islice(quarantined, _CHUNK_ROWS)):
        deleted_to_by_id: Mapping[str, int] = {}
        # Tag views still have events that were deleted from messages.
        if definition.source.reads_journal and not definition.source.reads_tag_views:
            ids = {row["persistence_id"] for row in chunk}
            deleted_to_by_id = (
                r2dbc_series.deletions(run.settings, ids)
                if run.settings.is_r2dbc
                else series.deletions(run.control, run.settings, ids)
            )
        for row in chunk:
            deleted_to = deleted_to_by_id.get(row["persistence_id"], 0)
            if row["cause"].startswith(SKIPPED_BY_HAND):
                counts.by_hand += 1
            elif row["cause"].startswith(SNAPSHOT) and definition.mode is not Mode.FOLD:
                counts.snapshots += 1
            elif row["sequence_nr"] <= deleted_to or fold.lacks_history(definition, deleted_to):
                counts.deleted += 1
            else:
                yield row
