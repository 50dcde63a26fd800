"""The commands `take-over` and `hand-over`: offsets from and to a projection of akka-projection.

Both need a journal in PostgreSQL, and that the other projection is stopped. A stopped projection
has consumed every event that is older than the newest offset of its slice range by its time window,
although the row of the event may be deleted; of younger events it has rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.application.guarded_change import EnsureLocked, Plan
from tidemark.context import Outcome, RunContext
from tidemark.errors import InvalidInput, WrongData
from tidemark.journals.pekko.series import NO_TAG
from tidemark.journals.r2dbc import frames, offsets
from tidemark.partitioning import columns, keys
from tidemark.partitioning.slice_ranges import ALL
from tidemark.project import shapes
from tidemark.project.definition.model import Definition
from tidemark.project.management.change import run_change
from tidemark.project.management.selection import select_one
from tidemark.project.offset_store import consumption
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning.plan import ledger
from tidemark.project.running.result_writers import writer_of
from tidemark.project.sources import event_source
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.text import counted
from tidemark.window import from_millis, iso

_TICKS_PER_MICROSECOND = 10
_MICROS_PER_SECOND = 1_000_000


def take_over(
    run: RunContext, name: str, projection: str, time_window: int, *, apply: bool
) -> Outcome:
    """Continue after the offsets of a stopped projection, or show the plan.

    Only offsets that move forward change. `time_window` is that of the projection's offset store,
    in seconds.

    Raises:
        InvalidInput: the journal is not in PostgreSQL, or there are no offsets of that name.
        SchemaMismatch: the table of offsets is absent or has another shape.
        LockHeld: a run works on the projection.
    """
    definition = _selected(run, name)
    return run_change(
        run,
        "take-over",
        definition,
        lambda: _take_over_plan(run, definition, projection, time_window),
        apply=apply,
    )


def hand_over(run: RunContext, name: str, projection: str, *, apply: bool) -> Outcome:
    """Replace the offsets of a stopped projection with those of this one, or show the plan.

    Raises:
        InvalidInput: the journal is not in PostgreSQL.
        SchemaMismatch: the table of offsets is absent or has another shape.
        WrongData: time buckets are not done, whose events the other projection would not see.
        LockHeld: a run works on the projection.
    """
    definition = _selected(run, name)
    return run_change(
        run,
        "hand-over",
        definition,
        lambda: _hand_over_plan(run, definition, projection),
        apply=apply,
    )


def _selected(run: RunContext, name: str) -> Definition:
    if not run.settings.is_r2dbc:
        raise InvalidInput(
            f"the journal {run.settings.journal} is not in PostgreSQL",
            where="TIDEMARK_R2DBC_CONNECTION",
            do="name such a journal with --journal",
        )
    definition = select_one(run, name)
    offsets.require(run.settings)
    return definition


def _take_over_plan(
    run: RunContext, definition: Definition, projection: str, time_window: int
) -> Plan:
    newest = offsets.newest(run.settings, projection)
    if not newest:
        raise InvalidInput(
            f"there are no offsets of a projection {projection}",
            where=str(offsets.table(run.settings)),
            do="write the name of its ProjectionId, without the key",
        )
    source, store = event_source(run, definition), OffsetStore.of(run, definition)
    limits = local_rows(
        run.spark,
        [(nr, micros - time_window * _MICROS_PER_SECOND) for nr, micros in newest.items()],
        "slice int, before bigint",
    )
    rows = offsets.stored(run.spark, run.settings, projection)
    older = frames.all_events(run.spark, run.settings, entity_types=definition.source.entity_types)
    consumed = source.only_ours(consumed_by(rows, older, limits))
    known = consumption.stored_offsets(store, run.spark, ALL)
    moved = moved_forward(consumed, known).localCheckpoint()
    number = moved.count()
    counts = {"offsets_taken_over": number}
    until = iso(from_millis(max(newest.values()) // 1000))
    lines = [
        f"{definition.name}: {counted(number, 'persistence id')} continue after {projection}, whose"
        f" newest event is of {until}"
    ]

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        ensure_locked()
        with writer_of(store.fenced(ALL, run.owner)) as writer:
            writer.write_offsets(moved, clock.now())
        return counts

    return Plan(counts, lines, apply if number else None)


@shaped(
    rows=offsets.STORED,
    events={**shapes.EVENT, "ticks": "bigint"},
    limits={"slice": "int", "before": "bigint"},
    returns=offsets.STORED,
)
def consumed_by(rows: DataFrame, events: DataFrame, limits: DataFrame) -> DataFrame:
    """Return how far another projection has consumed each persistence id.

    A persistence id without a row in `rows` is consumed up to its last event before the limit of
    its slice (epoch µs), since the projection deletes rows that are older.
    """
    epoch_ticks = F.lit(keys.UUID_EPOCH_TICKS)
    micros = F.call_function("div", F.col("ticks") - epoch_ticks, F.lit(_TICKS_PER_MICROSECOND))
    last = F.max(F.struct("sequence_nr", "micros")).alias("last")
    older = (
        events.select("persistence_id", "sequence_nr", micros.alias("micros"))
        .withColumn("slice", columns.slice_of(F.col("persistence_id")))
        .join(F.broadcast(limits), on="slice")
        .where(F.col("micros") < F.col("before"))
        .join(rows.select("persistence_id"), on="persistence_id", how="left_anti")
        .groupBy("persistence_id")
        .agg(last)
        .select("persistence_id", "last.sequence_nr", "last.micros")
    )
    return rows.select(*offsets.STORED).unionByName(older)


@shaped(consumed=offsets.STORED, known=shapes.STORED, returns=shapes.MOVED_OFFSETS)
def moved_forward(consumed: DataFrame, known: DataFrame) -> DataFrame:
    """Return the offsets that are higher than the known ones."""
    ticks = F.col("micros") * _TICKS_PER_MICROSECOND + keys.UUID_EPOCH_TICKS
    stored = known.select("persistence_id", "stored_number")
    return (
        consumed.join(stored, on="persistence_id", how="left")
        .where(F.col("sequence_nr") > F.coalesce("stored_number", F.lit(0)))
        .select(
            columns.slice_of(F.col("persistence_id")).alias("slice"),
            "persistence_id",
            F.lit(NO_TAG).alias("tag"),
            "sequence_nr",
            F.lit(None).cast("bigint").alias("tag_pid_sequence_nr"),
            columns.ticks_timeuuid(ticks, clock_sequence=0, node=0).alias("timestamp"),
        )
    )


def _hand_over_plan(run: RunContext, definition: Definition, projection: str) -> Plan:
    store = OffsetStore.of(run, definition)
    open_rows = ledger(run, definition).standing().open_rows
    if open_rows:
        first = iso(from_millis(min(row.time_bucket for row in open_rows)))
        raise WrongData(
            f"{definition.name} has {counted(len(open_rows), 'time bucket')} to do, the"
            f" first is {first}: {projection} would begin after their events",
            where=store.subject,
            do="run the projection until they are done, or skip what is missing",
        )
    number = sum(store.series_by_slice().values())
    counts = {"offsets_handed_over": number}
    lines = [
        f"{definition.name}: {projection} continues after the offsets of"
        f" {counted(number, 'persistence id')}; its present offsets are replaced"
    ]

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        ensure_locked()
        stored = consumption.stored_offsets(store, run.spark, ALL)
        written = offsets.replace(run.settings, projection, handed_over(stored), clock.now())
        return {"offsets_handed_over": written}

    return Plan(counts, lines, apply if number else None)


@shaped(stored=shapes.OFFSETS, returns=offsets.STORED)
def handed_over(stored: DataFrame) -> DataFrame:
    """Return offsets as the other projection has them; without an event, the time is 1970."""
    ticks = columns.timeuuid_ticks(F.col("stored_timeuuid")) - keys.UUID_EPOCH_TICKS
    micros = F.call_function("div", ticks, F.lit(_TICKS_PER_MICROSECOND))
    return stored.select(
        "persistence_id",
        F.col("stored_sequence_nr").alias("sequence_nr"),
        F.coalesce(micros, F.lit(0).cast("bigint")).alias("micros"),
    )
