"""Mode `fold` in a run: stored states, histories where there is none, and the fold of both."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

from tidemark.context import RunContext
from tidemark.projection.acceptance.accept import AcceptedEvents
from tidemark.projection.analysis.analyze import AnalyzedDefinition
from tidemark.projection.envelope import IS_SNAPSHOT
from tidemark.projection.offset_store import skips
from tidemark.projection.transformation import fold_frame, fold_start, transform


@dataclass(frozen=True)
class Folded:
    """What came of it.

    Attributes:
        states: the rows to store; columns are those of `AnalyzedDefinition.result`.
        letters: the events that could not be folded, or of a history not be read; columns are
            those of `transform.unreadable`.
        cached: what both are made from, in memory.
    """

    states: DataFrame
    letters: DataFrame
    cached: DataFrame


def fold(
    run: RunContext,
    checked: AnalyzedDefinition,
    decoded: DataFrame,
    taken: AcceptedEvents,
    *,
    accept_purged: bool,
) -> Folded:
    """Fold what a run has accepted.

    A persistence id with a state of this version goes on behind it. For any other one all events
    up to the number reached are folded, from the first, or from the newest snapshot if the
    definition starts from snapshots, wherever they lie.

    Args:
        run: the application's frame.
        checked: the definition.
        decoded: the run's events as `transform.decode` makes them, in memory.
        taken: where they come from.
        accept_purged: begin with what is left of a history.

    Raises:
        HistoryPurged: events that a fold must begin with are gone.
        WrongData: a row of the target was written by somebody else.
    """
    events = transform.distinct_events(taken.rows)
    key = [
        name for name in ("persistence_id", "sequence_nr", IS_SNAPSHOT) if name in events.columns
    ]
    unread = transform.unreadable(decoded).limit(0)
    ground = fold_start.ground(run, checked, decoded, taken.reached)
    if not ground.begun.isEmpty():
        subject = checked.definition.subject(run.settings.journal_keyspace)
        run.say(f"{checked.definition.name}: reading the histories of states that begin")
        raw = fold_start.events_of(
            run,
            checked.definition,
            ground.begun,
            skips.stored(run.control, run.settings, subject),
            accept_purged=accept_purged,
        )
        further = transform.decode(raw, checked.event, checked.decoders).localCheckpoint()
        unread = transform.unreadable(further.join(decoded, on=key, how="left_anti"))
        others = events.join(ground.begun, on="persistence_id", how="left_anti")
        events = others.unionByName(raw)
        own = decoded.join(ground.begun, on="persistence_id", how="left_anti")
        decoded = own.unionByName(further)
    folded = fold_frame.folded(transform.readable(decoded), ground.states, checked)
    folded.persist(StorageLevel.MEMORY_AND_DISK)
    letters = transform.unprocessed(events, fold_frame.failures(folded)).unionByName(unread)
    return Folded(fold_frame.states(folded), letters, folded)
