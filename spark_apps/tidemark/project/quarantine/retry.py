"""Processing quarantined events again: what the next run does of them, and what none can do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby, islice

from tidemark.application.guarded_change import EnsureLocked, Plan
from tidemark.cassandra.control import Row
from tidemark.context import Outcome, RunContext
from tidemark.journals.pekko import series
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

_TOGETHER = 500


def retry(run: RunContext, name: str, choice: EventSelection, *, apply: bool) -> Outcome:
    """Plan the time buckets of quarantined events again, for the next run.

    Left out are events that were skipped by hand, snapshots that no run reads again, and events
    that were deleted, or in mode fold the first events of their persistence id.

    Args:
        run: the context of the run.
        name: the projection.
        choice: which of its events.
        apply: do it; otherwise the plan is shown.

    Raises:
        InvalidInput: the projection is unknown, or no such event is in quarantine.
        HistoryPurged: the tag views of one of the time buckets were purged.
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
class _Found:
    """Quarantined events that are processed again, and what keeps others from it."""

    events: int = 0
    ids: int = 0
    by_hand: int = 0
    snapshots: int = 0
    deleted: int = 0
    time_buckets: set[int] = field(default_factory=set)

    @property
    def left(self) -> int:
        """How many events stay as they are."""
        return self.by_hand + self.snapshots + self.deleted


def _plan(run: RunContext, definition: Definition, choice: EventSelection, place: Place) -> Plan:
    found, store = _Found(), OffsetStore.of(run, definition)
    pieces_ledger = ledger(run, definition)
    known = pieces_ledger.standing().known
    for persistence_id, rows in _by_id(_retried(run, definition, place, found)):
        found.ids += 1
        for row in rows:
            found.events += 1
            bucket = time_bucket(run, row)
            if definition.mode is Mode.FOLD and bucket not in known:
                bucket = _newest(run, store, persistence_id) or bucket
            found.time_buckets.add(bucket)
    choice.require_any(found.events + found.left, definition.name)
    pieces = restated(pieces_ledger, found.time_buckets)
    require_rows(run, definition, [piece.time_bucket for piece in pieces])
    counts = {
        "events_retried": found.events,
        "persistence_ids": found.ids,
        "buckets_restated": len(pieces),
        "events_left": found.left,
    }
    lines = _lines(definition, found, len(pieces))
    if not found.events:
        return Plan(counts, lines, None)

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        ensure_locked()
        # Rows of earlier releases of Tidemark have left no mark.
        management_state.note_quarantined(store)
        if definition.mode is Mode.FOLD:
            retried_again = _retried(run, definition, place, _Found())
            ids = (persistence_id for persistence_id, _ in _by_id(retried_again))
            while chunk := list(islice(ids, _TOGETHER)):
                ensure_locked()
                fold.void_states(store, chunk)
        ensure_locked()
        pieces_ledger.restate(pieces, owner=run.owner)
        ensure_locked()
        slice_records.forget_buckets(store, found.time_buckets)
        return counts

    return Plan(counts, lines, apply)


def _lines(definition: Definition, found: _Found, restated_buckets: int) -> list[str]:
    if not found.events + found.left:
        return [f"{definition.name}: nothing is in quarantine"]
    lines = [
        f"{definition.name}: {counted(found.events, 'event')} of"
        f" {counted(found.ids, 'persistence id')} will be processed again by the next run, with the"
        f" other events of {counted(len(found.time_buckets), 'time bucket')}"
    ]
    if is_open := len(found.time_buckets) - restated_buckets:
        lines.append(f"{counted(is_open, 'time bucket')} of these would be processed anyway")
    if definition.mode is Mode.FOLD and found.ids:
        lines.append("the states of these persistence ids are computed again from the first event")
    if found.by_hand:
        lines.append(
            f"{counted(found.by_hand, 'event')} stay: skipped by hand; `project.py set-offset` back"
            " processes them"
        )
    if found.snapshots:
        lines.append(
            f"{counted(found.snapshots, 'snapshot')} stay: they are read with the first events of"
            " their persistence ids alone; `project.py clear` processes them"
        )
    if found.deleted:
        what = "they or the first events of their persistence ids were deleted from the journal"
        lines.append(f"{counted(found.deleted, 'event')} stay: {what}")
    return lines


def _newest(run: RunContext, store: OffsetStore, persistence_id: str) -> int | None:
    """Return the time bucket of the last consumed event of a persistence id, if it is known.

    Whatever event of the id a run of mode fold reads, it reads the history of a void state.
    """
    for offset in store.offsets_of_id(persistence_id):
        if offset.event_timeuuid is not None:
            at = series.epoch_ms(offset.event_timeuuid)
            return keys.time_bucket(at, run.settings.bucket_size)
    return None


def _by_id(rows: Iterable[Row]) -> Iterator[tuple[str, Iterable[Row]]]:
    return groupby(rows, lambda row: str(row["persistence_id"]))


def _retried(run: RunContext, definition: Definition, place: Place, found: _Found) -> Iterator[Row]:
    """Yield the events that are to be processed again; others are counted in `found`."""
    stored = quarantine.stream(run.control, run.settings, place)
    while chunk := list(islice(stored, _TOGETHER)):
        deleted: Mapping[str, int] = {}
        # Tag views keep what was deleted.
        if definition.source.reads_journal and not definition.source.reads_tag_views:
            ids = {row["persistence_id"] for row in chunk}
            deleted = series.deletions(run.control, run.settings, ids)
        for row in chunk:
            deleted_to = deleted.get(row["persistence_id"], 0)
            if row["cause"].startswith(SKIPPED_BY_HAND):
                found.by_hand += 1
            elif row["cause"].startswith(SNAPSHOT) and definition.mode is not Mode.FOLD:
                found.snapshots += 1
            elif row["sequence_nr"] <= deleted_to or fold.lacks_history(definition, deleted_to):
                found.deleted += 1
            else:
                yield row
