"""Reads the states that a fold continues, and the histories of persistence ids without a state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.errors import HistoryPurged, WrongData
from tidemark.project.acceptance import snapshots
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.definition.model import Definition
from tidemark.project.envelope import IS_SNAPSHOT, STATE_KEY
from tidemark.project.offset_store import management_state, removed_states, skips
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.offset_store.skips import Skip
from tidemark.project.sources import event_source
from tidemark.project.transformation import state_times, transform

GENERATION_COLUMN = "_generation"
HAS_MARKER = "tidemark_has_marker"
_NAMED = 3


@dataclass(frozen=True)
class FoldStart:
    """The states that the events of a run are folded into; all frames are in memory.

    Attributes:
        states: states of this version that are not void, with the columns of
            `AnalyzedDefinition.result`; a removed state is a row of nulls.
        generations: persistence_id, _generation (bigint) of the state to write, and
            tidemark_has_marker (boolean); only rows where one of the two is not 0 or false.
        to_replay: persistence_id and reached_number of ids without such a state, of which the run
            has read only a part of the accepted events, or of those after a snapshot.
        unfolded: rows to store for persistence ids without folded events, with the columns of
            `states`: a state with a marker to delete, left by a crash; or nulls, which delete a row
            that is not in `states`.
    """

    states: DataFrame
    generations: DataFrame
    to_replay: DataFrame
    unfolded: DataFrame


def find_start(
    run: RunContext,
    store: OffsetStore,
    analyzed: AnalyzedDefinition,
    decoded: DataFrame,
    reached: DataFrame,
) -> FoldStart:
    """Read the states and markers of the persistence ids in `decoded`, by direct join.

    `decoded` is the result of `transform.decode`, `reached` is of shape FRONTIERS.
    """
    own_snapshot = F.lit(None).cast("bigint")
    if analyzed.definition.starts_from_snapshots:
        own_snapshot = F.max(F.when(F.col(IS_SNAPSHOT), F.col("sequence_nr")))
    ids = decoded.groupBy("persistence_id").agg(
        F.count(F.lit(1)).alias("events"), own_snapshot.alias("snapshot_nr")
    )
    ids = ids.join(reached.select("persistence_id", "reached_number"), on="persistence_id")
    # In memory, or Spark would push the projection's name down as a filter, and scan the table.
    ids = removed_states.keyed(store, ids).localCheckpoint()
    stored = _stored(analyzed, ids.select("persistence_id"))
    _require_ours(run, analyzed.definition, stored)
    generation = state_times.generation_of(F.col("write_time"))
    is_of_version = state_times.version_of(F.col("write_time")) == analyzed.definition.version
    states_from = management_state.states_from(store)
    current = stored.where(is_of_version & (generation >= states_from)).drop("write_time")
    markers = removed_states.stored(store, ids)
    # A row takes precedence over a marker: a run may have died between writing the marker and
    # deleting the row, or between writing a new row and deleting the marker.
    is_of_version = F.col("definition_version") == analyzed.definition.version
    removed = markers.where(is_of_version & (F.col("generation") >= states_from))
    removed = removed.join(stored, on="persistence_id", how="left_anti").select(*STATE_KEY.names)
    states = current.unionByName(removed, allowMissingColumns=True).localCheckpoint()
    outdated = stored.join(current, on="persistence_id", how="left_anti").select("persistence_id")
    unfolded = current.join(markers, on="persistence_id", how="left_semi").unionByName(
        outdated, allowMissingColumns=True
    )
    known_generations = stored.select("persistence_id", generation.alias("generation")).unionByName(
        markers.select("persistence_id", "generation", F.lit(True).alias(HAS_MARKER)),
        allowMissingColumns=True,
    )
    generations = (
        ids.select("persistence_id")
        .join(known_generations, on="persistence_id", how="left")
        .groupBy("persistence_id")
        .agg(
            F.greatest(F.max("generation"), F.lit(states_from).cast("bigint")).alias(
                GENERATION_COLUMN
            ),
            F.coalesce(F.bool_or(HAS_MARKER), F.lit(False)).alias(HAS_MARKER),
        )
        .where((F.col(GENERATION_COLUMN) > 0) | F.col(HAS_MARKER))
    )
    # Sequence nrs are distinct, between 1 or the snapshot's and the reached number, so that the
    # count shows whether all events are there.
    base = F.coalesce(F.col("snapshot_nr") - 1, F.lit(0))
    is_part = F.col("events") < F.col("reached_number") - base
    to_replay = ids.where(is_part).join(states, on="persistence_id", how="left_anti")
    return FoldStart(
        states,
        generations.localCheckpoint(),
        to_replay.select("persistence_id", "reached_number").localCheckpoint(),
        unfolded.localCheckpoint(),
    )


def events_of(
    run: RunContext,
    definition: Definition,
    to_replay: DataFrame,
    skipped: Sequence[Skip],
    *,
    accept_purged: bool,
) -> DataFrame:
    """Read all accepted events of the persistence ids `to_replay`, by key from the journal.

    The events, which are returned in memory, include those before the projection's first time
    bucket. If the definition starts from snapshots, the newest snapshot replaces all events up to
    its sequence nr. `skipped` are numbers that were skipped by hand, whether or not their events
    exist. With `accept_purged` deleted events are accepted.

    Raises:
        HistoryPurged: events of a persistence id have been deleted.
    """
    source, bases = event_source(run, definition), None
    based = to_replay.withColumn("base", F.lit(0).cast("bigint"))
    if definition.starts_from_snapshots:
        bases = snapshots.up_to(source, to_replay)
        based = to_replay.join(bases, on="persistence_id", how="left").select(
            *to_replay.columns, F.coalesce("snapshot_nr", F.lit(0)).alias("base")
        )
    rows = source.history(to_replay.select("persistence_id"))
    rows = rows.join(F.broadcast(based), on="persistence_id")
    is_wanted = F.col("sequence_nr").between(F.col("base") + 1, F.col("reached_number"))
    rows = rows.where(is_wanted).drop("reached_number", "base")
    rows = skips.without(rows, skipped)
    if bases is not None:
        rows = snapshots.as_events(rows)
    events = transform.distinct_events(rows).localCheckpoint()
    if not accept_purged:
        _require_all(skips.uncounted(based, skipped), events, str(definition.file))
    if bases is None:
        return events
    snapshot_events = transform.distinct_events(snapshots.rows_of(source, bases))
    return events.unionByName(snapshot_events).localCheckpoint()


def _stored(analyzed: AnalyzedDefinition, ids: DataFrame) -> DataFrame:
    definition = analyzed.definition
    rows = connector.read_partitions(
        ids,
        definition.keyspace,
        definition.table,
        *analyzed.result.names,
        write_time_of="sequence_nr",
    )
    # Cassandra's types may be narrower than those of the state.
    columns = [F.col(field.name).cast(field.dataType) for field in analyzed.result]
    return rows.where("write_time IS NOT NULL").select(*columns, "write_time").localCheckpoint()


def _require_ours(run: RunContext, definition: Definition, stored: DataFrame) -> None:
    """Require that no row was written by hand, as such a row would hide later states."""
    is_ours = state_times.is_ours(F.col("write_time"), F.col("sequence_nr"))
    foreign = [row.persistence_id for row in stored.where(~is_ours).limit(_NAMED).collect()]
    if foreign:
        raise WrongData(
            f"the states of {', '.join(sorted(foreign))} were not written by this projection",
            where=definition.target,
            do="empty the table with TRUNCATE, or delete these rows and wait until the deletion"
            " is gone; see docs/projection-modes.md",
        )


def _require_all(ids: DataFrame, events: DataFrame, file: str) -> None:
    event_counts = events.groupBy("persistence_id").agg(F.count(F.lit(1)).alias("events"))
    incomplete = ids.join(event_counts, on="persistence_id", how="left").where(
        F.coalesce("events", F.lit(0)) < F.col("expected")
    )
    examples: Sequence[str] = [
        f"{row.persistence_id} has {row.events or 0:,} of {row.expected:,}"
        for row in incomplete.orderBy("persistence_id").limit(_NAMED).collect()
    ]
    if examples:
        raise HistoryPurged(
            f"a fold begins with the first event, but some are gone: {', '.join(examples)}",
            where=file,
            do="bring them back, or begin with what is left: --accept-purged",
        )
