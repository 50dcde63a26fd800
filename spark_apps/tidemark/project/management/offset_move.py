"""Moves the frontier of a series forward, over one number, or back.

The order of writes lets a change stop anywhere and be repeated. Forward, the skipped numbers are
written before the frontier moves, so that no number is consumed by mistake. Back, pieces are
planned again before the frontier moves: with the old frontier, their events are Duplicates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from tidemark.application.guarded_change import EnsureLocked, Plan
from tidemark.context import RunContext
from tidemark.errors import HistoryPurged, InvalidInput
from tidemark.journals.kafka.series import JournalReader
from tidemark.journals.pekko.series import NO_TAG, EventRef, Series, SeriesReader, numbers
from tidemark.journals.r2dbc.series import R2dbcSeriesReader
from tidemark.ledger import quarantine
from tidemark.ledger.piece import Piece, Reason, State
from tidemark.ledger.pieces import Pieces
from tidemark.project.definition.model import Definition, Mode
from tidemark.project.definition.source import KafkaJournal
from tidemark.project.offset_store import bucket_origin, management_state, skips, slice_records
from tidemark.project.offset_store.offsets import Offset, OffsetStore
from tidemark.project.offset_store.skips import Skip
from tidemark.project.planning.plan import ledger, require_rows
from tidemark.project.writing import dead_letters, fold
from tidemark.window import from_millis


@dataclass(frozen=True)
class OffsetMove:
    """The present offset of a series, and plans for moving its frontier."""

    run: RunContext
    definition: Definition
    series: Series
    stored: Offset | None
    reader: SeriesReader | JournalReader | R2dbcSeriesReader

    @classmethod
    def read(cls, run: RunContext, definition: Definition, series: Series) -> OffsetMove:
        """Read the present offset of a series."""
        stored = OffsetStore.of(run, definition).offset(series)
        return cls(run, definition, series, stored, _reader(run, definition, series))

    @property
    def store(self) -> OffsetStore:
        """The offset store of the projection."""
        return OffsetStore.of(self.run, self.definition)

    @property
    def number(self) -> int:
        """The frontier; 0 if no event was consumed."""
        return self.stored.number if self.stored else 0

    @property
    def _keyspace(self) -> str:
        """The keyspace of the events, for people."""
        return self.definition.source.table(self.run.settings).partition(".")[0]

    @property
    def _sequence_nr(self) -> int:
        return self.stored.sequence_nr if self.stored else 0

    def _events_after(self, last: int | None = None) -> Iterator[EventRef]:
        """Yield the events after the frontier, up to the number `last`."""
        first, after = self.number + 1, self._sequence_nr
        if last is None:
            return self.reader.event_refs(first, after=after)
        return self.reader.event_refs(first, last, after=after)

    def require_known(self, to: int) -> None:
        """Reject a number above the highest of the series.

        Raises:
            InvalidInput: the series is unknown, or all of its numbers are lower.
        """
        highest = max(self.number, self.reader.known_highest(self._sequence_nr))
        if self.series.tag != NO_TAG and highest < to:
            # The progress may lag behind the tag views.
            for event in self._events_after():
                highest = max(highest, event.number)
                if highest >= to:
                    break
        if highest == 0:
            raise InvalidInput(
                f"the journal has no event of {self.series}",
                where=self._keyspace,
                do="look at `project.py get-offset` for those that it has",
            )
        if to > highest:
            raise InvalidInput(
                f"{to} lies in the future of {self.series}: its highest number is {highest}",
                where=self._keyspace,
                do=f"{self.definition.name} is at {self.number}; wait for the event",
            )

    def forward(self, to: int) -> Plan:
        """Skip all events up to a number."""
        skipped_events, last = 0, None
        for event in self._events_after(to):
            skipped_events, last = skipped_events + 1, event
        missing = to - self.number - skipped_events
        line = (
            f"{self.series}: from {self.number} forward to {to}: {skipped_events:,} events and"
            f" {missing:,} missing numbers count as consumed, and will be in no result"
        )
        offset = self._offset(to, last)

        counts = {"events_skipped": skipped_events, "numbers_missing": missing}

        def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
            self._skip(Skip(self.series, self.number + 1, to), ensure_locked)
            self._move(offset, ensure_locked)
            return counts

        return Plan(counts, [line], apply)

    def over_next(self) -> Plan:
        """Skip the next number; quarantine its event."""
        number = self.number + 1
        event = next(iter(self._events_after(number)), None)
        described = "which is missing"
        if event is not None:
            start = from_millis(event.time_bucket)
            described = f"the event with sequence nr {event.sequence_nr} of {start:%Y-%m-%d %H:%M}"
        offset = self._offset(number, event)
        counts = {"events_skipped": int(event is not None), "numbers_missing": int(event is None)}

        def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
            if event is not None:
                ensure_locked()
                self._quarantine(event)
            self._skip(Skip(self.series, number, number), ensure_locked)
            self._move(offset, ensure_locked)
            return counts

        return Plan(counts, [f"{self.series}: skips {number}, {described}"], apply)

    def back(self, to: int) -> Plan:
        """Make all events above a number new again.

        In mode fold the state is computed again from the first event.

        Raises:
            HistoryPurged: some of the events, or the first events of a state, were deleted.
        """
        deleted_to = self.reader.deleted_to()
        if fold.lacks_history(self.definition, deleted_to):
            raise HistoryPurged(
                f"the state of {self.series} would be computed again, but its events up to"
                f" {deleted_to} were deleted",
                where=self.run.settings.journal_keyspace,
                do="bring them back; see docs/projection-modes.md",
            )
        if self.series.tag == NO_TAG and to < deleted_to:
            raise HistoryPurged(
                f"{self.series} {numbers(to + 1, min(deleted_to, self.number))} would be new again,"
                " but were deleted",
                where=self._keyspace,
                do=f"go back to {deleted_to} at most",
            )
        at_number, buckets, restated_events = None, set(), 0
        for event in self.reader.event_refs(max(to, 1), self.number, until=self._sequence_nr):
            if event.number == to:
                at_number = event
            else:
                restated_events += 1
                buckets.add(event.time_bucket)
        pieces_ledger = ledger(self.run, self.definition)
        pieces = restated(pieces_ledger, buckets)
        require_rows(self.run, self.definition, [piece.time_bucket for piece in pieces])
        lines = [
            f"{self.series}: from {self.number} back to {to}: {restated_events:,} events in"
            f" {len(pieces):,} time buckets that are done will be processed again"
        ]
        if self.definition.mode is Mode.FOLD:
            lines.append("its state is computed again from the first event")
        if missing := self.number - to - restated_events:
            lines.append(f"{missing:,} of these numbers are missing, and will be a gap")
        offset = self._offset(to, at_number)
        counts = {"events_restated": restated_events, "buckets_restated": len(pieces)}

        def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
            run = self.run
            if self.definition.mode is Mode.FOLD:
                ensure_locked()
                fold.void_states(self.store, [self.series.persistence_id])
            ensure_locked()
            bucket_origin.unsettle(self.store, buckets)
            ensure_locked()
            pieces_ledger.restate(pieces, owner=run.owner)
            ensure_locked()
            slice_records.forget_buckets(self.store, buckets)
            ensure_locked()
            skips.cut(self.store, self.series, to, run.owner)
            self._move(offset, ensure_locked)
            return counts

        return Plan(counts, lines, apply)

    def _offset(self, number: int, nearest: EventRef | None) -> Offset:
        """Return the offset for a number: its event's, or lower bounds if the event is missing."""
        if nearest is not None and nearest.number == number:
            timestamp = nearest.timestamp
            return Offset(
                self.series, number, nearest.sequence_nr, timestamp, None, self._snapshot_nr(number)
            )
        if self.series.tag == NO_TAG:
            return Offset(self.series, number, number, snapshot_nr=self._snapshot_nr(number))
        lower_bounds = [nearest.sequence_nr] if nearest and nearest.number < number else []
        lower_bounds += [self._sequence_nr] if self.number < number else []
        return Offset(self.series, number, max([number, *lower_bounds]))

    def _snapshot_nr(self, number: int) -> int | None:
        """Return the snapshot that the series began with, or None if `number` is before it."""
        snapshot_nr = self.stored.snapshot_nr if self.stored else None
        return snapshot_nr if snapshot_nr is not None and snapshot_nr <= number else None

    def _skip(self, skip: Skip, ensure_locked: EnsureLocked) -> None:
        ensure_locked()
        skips.add(self.store, skip, self.run.owner)

    def _move(self, offset: Offset, ensure_locked: EnsureLocked) -> None:
        ensure_locked()
        self.store.set_offset(offset)

    def _quarantine(self, event: EventRef) -> None:
        run, place = self.run, dead_letters.place_of(self.run, self.definition)
        record = {
            "source": place.source,
            "application": place.application,
            "persistence_id": self.series.persistence_id,
            "sequence_nr": event.sequence_nr,
            "timestamp": event.timestamp,
            "cause": f"{quarantine.SKIPPED_BY_HAND}: {run.owner}",
            "definition_version": self.definition.fingerprint,
            **self.reader.payload(event),
        }
        management_state.note_quarantined(self.store)
        quarantine.write_one(run.control, run.settings, record, run_id=run.run_id)


def _reader(
    run: RunContext, definition: Definition, series: Series
) -> SeriesReader | JournalReader | R2dbcSeriesReader:
    source = definition.source
    if isinstance(source, KafkaJournal):
        return JournalReader(run.control, run.settings, source.topic, series)
    if run.settings.is_r2dbc:
        return R2dbcSeriesReader(run.settings, series)
    return SeriesReader(run.control, run.settings, series)


def restated(pieces_ledger: Pieces, time_buckets: Collection[int] | None = None) -> list[Piece]:
    """Return the done pieces of the time buckets, to restate; None means all time buckets."""
    if time_buckets is None:
        entries = pieces_ledger.entries()
    else:
        entries = pieces_ledger.entries_of(time_buckets)
    return [
        Piece(entry.time_bucket, Reason.RESTATED, entry.attempt)
        for entry in entries
        if entry.state is State.DONE
    ]
