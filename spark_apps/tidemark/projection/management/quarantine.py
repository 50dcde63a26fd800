"""The quarantined events of projections: listed, processed again, or given up.

`retry` plans the time buckets of the events again, and the next run processes them as it processes
any restated time bucket. A run takes an event out of quarantine once its result and its offsets are
written, so that an event that fails again stays, with the new cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from itertools import groupby, islice

from tidemark.application.guarded_change import EnsureLocked, Plan, guarded_change
from tidemark.cassandra.control import Row
from tidemark.context import Outcome, RunContext, RunState
from tidemark.errors import InvalidInput, all_of
from tidemark.journal import series
from tidemark.ledger import quarantine
from tidemark.ledger.quarantine import SKIPPED_BY_HAND, Place
from tidemark.partitioning import keys
from tidemark.projection.definition.model import Definition, Mode
from tidemark.projection.management import states
from tidemark.projection.management.change import run_change
from tidemark.projection.management.offset_move import restated
from tidemark.projection.management.selection import select_one, select_usable
from tidemark.projection.offset_store import management_state, slice_records
from tidemark.projection.offset_store.offsets import OffsetStore
from tidemark.projection.planning.lock import lock_of
from tidemark.projection.planning.plan import ledger, require_rows
from tidemark.projection.transformation.transform import SNAPSHOT
from tidemark.projection.writing import dead_letters
from tidemark.text import counted
from tidemark.window import from_millis, iso

_EXAMPLES = 5
_TOGETHER = 500


@dataclass(frozen=True)
class Choice:
    """The quarantined events that a command is for.

    Attributes:
        persistence_id: only events of this persistence id; None for all.
        sequence_nr: only the event with this sequence nr; None for all.
    """

    persistence_id: str | None = None
    sequence_nr: int | None = None

    def place(self, run: RunContext, definition: Definition) -> Place:
        """Return where these events of a projection are.

        Raises:
            InvalidInput: a sequence nr without a persistence id.
        """
        if self.sequence_nr is not None and self.persistence_id is None:
            raise InvalidInput(
                "a sequence nr alone is no event", where="--sequence-nr", do="give --persistence-id"
            )
        return replace(dead_letters.place_of(run, definition), **vars(self))

    def require_any(self, number: int, name: str) -> None:
        """Refuse named events of which none is in quarantine.

        Raises:
            InvalidInput: there is no such row.
        """
        if number or self.persistence_id is None:
            return
        event = f" {self.sequence_nr}" if self.sequence_nr is not None else ""
        raise InvalidInput(
            f"no event {self.persistence_id}{event} of {name} is in quarantine",
            where="--persistence-id" if self.sequence_nr is None else "--sequence-nr",
            do=f"look at `project.py quarantine list {name}`",
        )


def list_events(
    run: RunContext, names: Sequence[str], *, persistence_id: str | None, limit: int
) -> Outcome:
    """Report quarantined events of projections, at most `limit` of each; Spark is not started.

    Raises:
        InvalidInput: a projection is unknown.
    """
    selected = select_usable(run, names)
    lines: list[str] = []
    events: list[dict[str, object]] = []
    for definition in selected.definitions:
        place = Choice(persistence_id).place(run, definition)
        rows = list(islice(quarantine.stream(run.control, run.settings, place), limit + 1))
        lines += [f"{definition.name}: {_line(run, row)}" for row in rows[:limit]]
        if len(rows) > limit:
            lines.append(f"{definition.name}: there are more than {limit:,}; raise --limit")
        events += [{"projection": definition.name, **_json(run, row)} for row in rows[:limit]]
    return Outcome(
        RunState.FAILED if selected.errors else RunState.DONE,
        counts={"events": len(events)},
        lines=lines or ["nothing is in quarantine"],
        error=all_of(selected.errors),
        details={"events": events},
    )


def retry(run: RunContext, name: str, choice: Choice, *, apply: bool) -> Outcome:
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
        lambda: _retry(run, definition, choice, place),
        apply=apply,
    )


def discard(run: RunContext, name: str, choice: Choice, reason: str, *, apply: bool) -> Outcome:
    """Delete the rows of quarantined events; the events stay consumed, and in no result.

    Arguments and errors as those of `retry`; the reason is kept in the audit table.
    """
    definition = select_one(run, name)
    place = choice.place(run, definition)
    return guarded_change(
        run,
        "quarantine discard",
        OffsetStore.of(run, definition).subject,
        lambda: _discard(run, definition, choice, place, reason),
        lock=lambda: lock_of(run, definition),
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


def _retry(run: RunContext, definition: Definition, choice: Choice, place: Place) -> Plan:
    found, store = _Found(), OffsetStore.of(run, definition)
    for _, rows in _by_id(_retried(run, definition, place, found)):
        found.ids += 1
        for row in rows:
            found.events += 1
            found.time_buckets.add(_time_bucket(run, row))
    choice.require_any(found.events + found.left, definition.name)
    pieces_ledger = ledger(run, definition)
    pieces = restated(pieces_ledger, found.time_buckets)
    require_rows(run, definition, [piece.time_bucket for piece in pieces])
    counts = {
        "events_retried": found.events,
        "persistence_ids": found.ids,
        "buckets_restated": len(pieces),
        "events_left": found.left,
    }
    lines = _retry_lines(definition, found, len(pieces))
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
                states.void(store, chunk)
        ensure_locked()
        pieces_ledger.restate(pieces, owner=run.owner)
        ensure_locked()
        slice_records.forget_buckets(store, found.time_buckets)
        return counts

    return Plan(counts, lines, apply)


def _retry_lines(definition: Definition, found: _Found, restated_buckets: int) -> list[str]:
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


def _by_id(rows: Iterable[Row]) -> Iterator[tuple[str, Iterable[Row]]]:
    return groupby(rows, lambda row: str(row["persistence_id"]))


def _retried(run: RunContext, definition: Definition, place: Place, found: _Found) -> Iterator[Row]:
    """Yield the events that are to be processed again; others are counted in `found`."""
    stored = quarantine.stream(run.control, run.settings, place)
    while chunk := list(islice(stored, _TOGETHER)):
        deleted: Mapping[str, int] = {}
        if definition.source.reads_journal:
            ids = {row["persistence_id"] for row in chunk}
            deleted = series.deletions(run.control, run.settings, ids)
        for row in chunk:
            deleted_to = deleted.get(row["persistence_id"], 0)
            if row["cause"].startswith(SKIPPED_BY_HAND):
                found.by_hand += 1
            elif row["cause"].startswith(SNAPSHOT) and definition.mode is not Mode.FOLD:
                found.snapshots += 1
            elif row["sequence_nr"] <= deleted_to or states.lack_history(definition, deleted_to):
                found.deleted += 1
            else:
                yield row


def _discard(
    run: RunContext, definition: Definition, choice: Choice, place: Place, reason: str
) -> Plan:
    number = 0
    examples: list[str] = []
    for row in quarantine.stream(run.control, run.settings, place):
        number += 1
        if len(examples) < _EXAMPLES:
            examples.append(f"{definition.name}: {_line(run, row)}")
    choice.require_any(number, definition.name)
    counts = {"events_discarded": number}
    if not number:
        return Plan(counts, [f"{definition.name}: nothing is in quarantine"], None)

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        ensure_locked()
        quarantine.delete(run.control, run.settings, place)
        return counts

    line = (
        f"{definition.name}: deletes {counted(number, 'event')} from quarantine, consumed and in no"
        f" result: {reason}"
    )
    more = [f"and {number - len(examples):,} more"] if number > len(examples) else []
    return Plan(counts, [line, *examples, *more], apply)


def _time_bucket(run: RunContext, row: Row) -> int:
    return keys.time_bucket(series.epoch_ms(row["timestamp"]), run.settings.bucket_size)


def _version(row: Row) -> int | None:
    version = row["definition_version"]
    return int(version.split("-")[0]) if version else None


def _line(run: RunContext, row: Row) -> str:
    version = _version(row)
    of_version = f", version {version}" if version is not None else ""
    return (
        f"{row['persistence_id']} {row['sequence_nr']} of"
        f" {from_millis(_time_bucket(run, row)):%Y-%m-%d %H:%M}{of_version},"
        f" {row['found_at']:%Y-%m-%d %H:%M:%S}: {row['cause']}"
    )


def _json(run: RunContext, row: Row) -> dict[str, object]:
    return {
        "version": _version(row),
        "persistence_id": row["persistence_id"],
        "sequence_nr": row["sequence_nr"],
        "timestamp": str(row["timestamp"]),
        "time_bucket": iso(from_millis(_time_bucket(run, row))),
        "cause": row["cause"],
        "found_at": iso(row["found_at"].replace(tzinfo=UTC)),
        "run_id": row["run_id"],
    }
