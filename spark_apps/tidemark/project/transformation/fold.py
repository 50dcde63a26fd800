"""Mode `fold` in a run: reads stored states or histories, and folds events into new states."""

from __future__ import annotations

from tidemark.project.envelope import IS_SNAPSHOT
from tidemark.project.offset_store import skips
from tidemark.project.transformation import fold_frame, fold_start, transform
from tidemark.project.transformation.result import BatchEvents, Result
from tidemark.spark.read_once import kept_once


def by_fold(batch: BatchEvents) -> Result:
    """Fold the events of a batch into the states of their persistence ids.

    A persistence id whose state this version has stored or removed continues after that state. For
    any other persistence id all events up to the reached number are folded, from the first event,
    or from the newest snapshot if the definition starts from snapshots, in any time bucket.
    """
    run, analyzed, decoded = batch.run, batch.analyzed, batch.decoded
    events = transform.distinct_events(batch.accepted.rows)
    key = [
        name for name in ("persistence_id", "sequence_nr", IS_SNAPSHOT) if name in events.columns
    ]
    unreadable = transform.unreadable(decoded).limit(0)
    start = fold_start.find_start(run, batch.store, analyzed, decoded, batch.accepted.reached)
    if not start.to_replay.isEmpty():
        run.say(f"{analyzed.definition.name}: reading the histories of states that begin")
        history = fold_start.events_of(
            run,
            analyzed.definition,
            start.to_replay,
            skips.stored(batch.store),
            accept_purged=batch.accept_purged,
        )
        decoded_history = transform.decode(
            history, analyzed.event, analyzed.decoders
        ).localCheckpoint()
        unreadable = transform.unreadable(decoded_history.join(decoded, on=key, how="left_anti"))
        other_events = events.join(start.to_replay, on="persistence_id", how="left_anti")
        events = other_events.unionByName(history)
        decoded_rest = decoded.join(start.to_replay, on="persistence_id", how="left_anti")
        decoded = decoded_rest.unionByName(decoded_history)
    folded = kept_once(fold_frame.folded(transform.readable(decoded), start.states, analyzed))
    failed = transform.unprocessed(events, fold_frame.failures(folded))
    unprocessed = failed.unionByName(unreadable)
    processed = fold_frame.with_states(transform.processed(decoded), start).join(
        unprocessed.select("persistence_id", "sequence_nr"),
        on=["persistence_id", "sequence_nr"],
        how="left_anti",
    )
    rows = fold_frame.to_store(folded, decoded, start)
    return Result(rows, unprocessed, processed, [folded])
