"""The run of load-flights, from plan to report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from examples.flights import events, messages, plan, source, store
from tidemark.cassandra.schema import create_own_tables
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import InvalidInput
from tidemark.ledger.claim import claim
from tidemark.ledger.piece import Piece, PieceRow, State
from tidemark.ledger.pieces import Pieces
from tidemark.partitioning.keys import BucketSize
from tidemark.settings import Settings
from tidemark.window import Window, to_millis

APPLICATION = "load-flights"
# A flight has no event more than two hours before its scheduled departure; a day is enough.
_LOOK_AHEAD = timedelta(days=1)


def load_months(run: RunContext, months: int, *, force: bool = False) -> Outcome:
    """Write the events of the first `months` months of 2013 as Pekko would have written them.

    Done months are skipped without `force`; loading a month again writes the same rows.

    Raises:
        InvalidInput: the number of months is wrong; or the journal has other events, or was loaded
            with another bucket size or target partition size.
        LockHeld: another run loads one of the months.
    """
    windows = {to_millis(window.start): window for window in plan.month_windows(months)}
    store.require_own_journal(run.control, run.settings)
    create_own_tables(run.control, run.settings)
    ledger = Pieces(
        run.control,
        run.settings.keyspace,
        APPLICATION,
        run.settings.journal_keyspace,
        # A month is no bucket size, and the journal's bucket size does not matter for the pieces.
        BucketSize.DAY,
        definition_version(run.settings),
    )
    require_same_definition(ledger.entries(), definition_version(run.settings))
    store.create_journal(run.control, run.settings)
    pieces = ledger.plan(windows, force=force)
    if not pieces:
        return Outcome(RunState.NOTHING, lines=["every month is loaded"])
    return _load(run, ledger, pieces, windows)


def definition_version(settings: Settings) -> str:
    """Return the version for the ledger: all settings that determine the rows of an event."""
    return (
        f"{messages.DEFINITION}, {settings.bucket_size.value} buckets,"
        f" target partition size {settings.target_partition_size}"
    )


def require_same_definition(entries: Iterable[PieceRow], version: str) -> None:
    """Reject a journal that was loaded by another definition, since its rows would stay.

    Raises:
        InvalidInput: a month was started with another version.
    """
    for entry in entries:
        loaded_as = entry.definition_version
        if loaded_as is not None and loaded_as != version:
            raise InvalidInput(
                f"the journal was loaded as {loaded_as!r}, not as {version!r}",
                where="TIDEMARK_BUCKET_SIZE, TIDEMARK_TARGET_PARTITION_SIZE",
                do="set them as they were, or load into another keyspace",
            )


def _load(
    run: RunContext, ledger: Pieces, pieces: Sequence[Piece], windows: dict[int, Window]
) -> Outcome:
    started = time.monotonic()
    last = windows[max(piece.time_bucket for piece in pieces)]
    flights = source.read_flights(run.spark, source.flights_file(), last.end + _LOOK_AHEAD)
    run.say("numbering the events of each aircraft")
    numbered = events.number_events(_before(events.to_events(flights), last)).persist()
    totals = {"events_written": 0, "persistence_ids_written": 0}
    for piece in pieces:
        counts = _load_month(run, ledger, piece, _within(numbered, windows[piece.time_bucket]))
        totals |= {name: totals[name] + number for name, number in counts.items()}
    numbered.unpersist()
    seconds = time.monotonic() - started
    return Outcome(
        RunState.DONE,
        PieceCounts(len(pieces), len(pieces)),
        totals,
        [f"{totals['events_written'] / seconds:,.0f} events/s with reading and numbering"],
    )


def _load_month(run: RunContext, ledger: Pieces, piece: Piece, month: DataFrame) -> dict[str, int]:
    settings = run.settings
    rows = messages.to_messages(month, settings.bucket_size, settings.target_partition_size)
    ids = messages.to_persistence_ids(rows)
    with claim(
        run,
        ledger,
        [piece],
        resource=f"{APPLICATION}/{settings.journal_keyspace}",
    ) as claimed:
        counts = {"events_written": month.count(), "persistence_ids_written": ids.count()}
        claimed.check()
        store.write_persistence_ids(ids, settings)
        claimed.check()
        store.write_messages(rows, settings)
        claimed.finish(State.DONE, {piece.time_bucket: counts})
    return counts


def _before(events_read: DataFrame, window: Window) -> DataFrame:
    return events_read.where(F.col("event_ms") < to_millis(window.end))


def _within(events_read: DataFrame, window: Window) -> DataFrame:
    return _before(events_read, window).where(F.col("event_ms") >= to_millis(window.start))
