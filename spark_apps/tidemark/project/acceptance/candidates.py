"""Finds the keys, in all time buckets, that decide how far each series can be consumed.

The rows of the planned buckets are read before and passed in: no other keys of these buckets count,
so that every accepted event is processed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.journals.pekko.series import SERIES
from tidemark.project import shapes
from tidemark.project.acceptance import resets, rule
from tidemark.project.planning.batch import Batch
from tidemark.project.sources import read, restarts
from tidemark.project.sources.base import EventSource
from tidemark.project.sources.tags import TagsSource
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.text import counted

KEYS = tuple(shapes.KEYS)
SEARCHED_FIRST = 4
"""Time buckets in the first step of a search; each further step searches twice as many."""


@dataclass(frozen=True)
class Candidates:
    """The candidates of a batch and the frontiers that follow from them; both in memory.

    Attributes:
        rows: CANDIDATES.
        reached: FRONTIERS, with the mark of `resets.with_restart_marks`.
        restarted: RESTARTED; None if the definition has no `reset_after`.
        has_met_all: whether earlier runs have seen all persistence ids of their time, so that a
            persistence id without an offset is new.
    """

    rows: DataFrame
    reached: DataFrame
    restarted: DataFrame | None = None
    has_met_all: bool = False


@shaped(planned=shapes.KEYS, offsets=shapes.STORED, unread=shapes.KEYS)
def find_candidates(
    source: EventSource,
    batch: Batch,
    planned: DataFrame,
    offsets: DataFrame,
    unread: DataFrame | None = None,
    *,
    has_offsets: bool,
) -> Candidates:
    """Find the candidates of each series in all time buckets.

    `planned` are the rows of the buckets to process; `offsets` includes series that begin with a
    snapshot now; `unread` are the events after the offsets, read from the source if None;
    `has_offsets` says whether earlier runs have stored an offset.
    """
    if isinstance(source, TagsSource):
        return _by_tag_pid_sequence_nr(source, batch, planned, offsets)
    if unread is None:
        unread = read.numbered(source.unread(batch, planned, offsets)).select(*KEYS)
    return by_sequence_nr(
        source.run,
        batch,
        planned,
        offsets,
        unread,
        source.deleted(),
        source.written(),
        has_met_all=has_offsets or bool(batch.done),
    )


@shaped(
    planned=shapes.KEYS,
    offsets=shapes.STORED,
    unread=shapes.KEYS,
    deleted=shapes.DELETED,
    written=shapes.WRITTEN,
)
def by_sequence_nr(
    run: RunContext,
    batch: Batch,
    planned: DataFrame,
    offsets: DataFrame,
    unread: DataFrame,
    deleted: DataFrame,
    written: DataFrame | None = None,
    *,
    has_met_all: bool,
) -> Candidates:
    """Find the candidates where each persistence id is a series.

    `unread` are the events after the consumed ones; those in planned buckets are ignored. `written`
    is None unless the journal leaves numbers out: a number up to written_to that is absent then
    belongs to no event.
    """
    rows = _joined(run, batch, planned, unread, takes_older=has_met_all and batch.takes_older)
    reset_after, restarted = batch.definition.reset_after, None
    if reset_after is not None:
        restarted = restarts.restarted_ids(rows, offsets, deleted, reset_after).localCheckpoint()
        rows = resets.of_present_life(rows, restarted).localCheckpoint()
    if written is not None:
        rows = rule.jumping(rows, written).localCheckpoint()
    reached = rule.advance_frontiers(
        rows,
        resets.with_restarts(offsets, restarted),
        deleted,
        truncated_from=batch.plan.truncated_from,
    )
    marked = resets.with_restart_marks(reached, restarted).localCheckpoint()
    return Candidates(rows, marked, restarted, has_met_all)


def _by_tag_pid_sequence_nr(
    source: TagsSource, batch: Batch, planned: DataFrame, offsets: DataFrame
) -> Candidates:
    """Collect the planned rows and those of the look-back, then search for missing numbers."""
    search = _Search(source, batch, offsets)
    search.start(planned, batch.look_back(source.run.settings))
    search.find_missing()
    if len(source.definition.source.series_tags) == 1:
        return Candidates(search.rows, search.reached)
    return Candidates(search.rows, rule.align_tags(search.reached, search.rows))


class _Search:
    """Searches time buckets of tag views until no number is missing or all buckets are searched."""

    def __init__(self, source: TagsSource, batch: Batch, offsets: DataFrame) -> None:
        self._source, self._run, self._batch, self._offsets = source, source.run, batch, offsets
        # Not eager: the first job that needs the frame caches it, without a job of its own.
        self._deleted = source.deleted().localCheckpoint(eager=False)
        progress = source.progress().withColumnRenamed("progress_bucket", "time_bucket")
        # Progress is written after the rows, so it is read before them: they include its events.
        self._progress = progress.localCheckpoint()
        self._searched: set[int] = set(batch.time_buckets)

    def start(self, planned: DataFrame, time_buckets: Iterable[int]) -> None:
        """Take the planned rows, and search some more time buckets."""
        more_keys = self._source.keys_in(self._unsearched(time_buckets)).select(*KEYS)
        self.rows = _joined(self._run, self._batch, planned, more_keys)
        self._advance()

    def find_missing(self) -> None:
        """Search the buckets recorded in progress, then back from the window's end, ever faster."""
        if self._batch.plan.truncated_from is not None:
            self._search_waiting_buckets()
        if self._is_complete():
            return
        incomplete = self._incomplete()
        recorded = incomplete.where(F.col("progress_bucket").isNotNull()).select("progress_bucket")
        self._add([row.progress_bucket for row in recorded.distinct().collect()], incomplete)
        settings, plan = self._run.settings, self._batch.plan
        first = min(settings.first_time_bucket, plan.first)
        end, width = plan.end, SEARCHED_FIRST * settings.bucket_size.milliseconds
        while end > first and not (incomplete := self._incomplete()).isEmpty():
            start = max(first, end - width)
            self._add(range(start, end, settings.bucket_size.milliseconds), incomplete)
            end, width = start, 2 * width
        if end <= first:
            self._remember(self._incomplete())

    def _remember(self, incomplete: DataFrame) -> None:
        """Exclude numbers that are in no time bucket from the searches of later batches."""
        missing = incomplete.select(*SERIES, "next_number")
        searched_before = self._source.searched
        searched = missing if searched_before is None else searched_before.unionByName(missing)
        self._source.searched = searched.localCheckpoint()

    def _search_waiting_buckets(self) -> None:
        """Search time buckets that may not be processed yet for events that seem purged."""
        batch, size = self._batch, self._run.settings.bucket_size.milliseconds
        in_plan = range(batch.plan.first, batch.plan.end, size)
        waiting = set(in_plan) - batch.planned - batch.done
        is_new = F.col("stored_number").isNull() & F.col("reached_timeuuid").isNotNull()
        new_series = self.reached.where(is_new & (F.col("base") > F.col("deleted_to")))
        if waiting and not new_series.isEmpty():
            self._add(waiting, new_series)

    def _add(self, time_buckets: Iterable[int], series: DataFrame) -> None:
        buckets = self._unsearched(time_buckets)
        if buckets:
            self._run.say(f"searching {counted(len(buckets), 'time bucket')} for missing numbers")
            no_keys = self.rows.limit(0).select(*KEYS)
            keys = self._source.keys_in(buckets).select(*KEYS)
            of_series = keys.join(series.select(*SERIES), on=[*SERIES], how="left_semi")
            rows = _joined(self._run, self._batch, no_keys, of_series.select(*KEYS))
            self.rows = self.rows.unionByName(rows).localCheckpoint()
            self._advance()

    def _unsearched(self, time_buckets: Iterable[int]) -> list[int]:
        """Return the time buckets not searched before, and count them as searched from now on."""
        unsearched = sorted(set(time_buckets) - self._searched)
        self._searched.update(unsearched)
        return unsearched

    def _advance(self) -> None:
        reached = rule.advance_frontiers(
            self.rows, self._offsets, self._deleted, truncated_from=self._batch.plan.truncated_from
        )
        self.reached = reached.localCheckpoint()

    def _is_complete(self) -> bool:
        """Return whether no series lacks a number, the usual case, in one pass."""
        is_hole = F.col("highest_number") > F.col("reached_number")
        frontiers = self.reached.join(self._reachable_progress(), on=[*SERIES], how="full")
        totals = frontiers.agg(
            F.bool_or(is_hole).alias("holes"), F.bool_or(_is_lost()).alias("lost")
        ).collect()[0]
        return not (totals.holes or totals.lost)

    def _reachable_progress(self) -> DataFrame:
        progress = _with_bucket_state(self._run, self._batch, self._progress)
        return progress.where(F.col("is_there") & ~F.col("is_before"))

    def _incomplete(self) -> DataFrame:
        """Return the series whose next number is not found although higher numbers exist.

        Columns: SERIES, progress_bucket (of the last event that progress records; may be null),
        next_number.
        """
        limits = self.reached.select(*SERIES, "reached_number", "stored_number", "deleted_to")
        beyond = self.rows.where(F.col("is_there") & ~F.col("is_before")).join(limits, on=[*SERIES])
        holes = beyond.where(F.col("number") > F.col("reached_number"))
        lost = self._reachable_progress().join(limits, on=[*SERIES], how="left").where(_is_lost())
        next_seen = self.rows.join(limits, on=[*SERIES]).where(F.col("number") == _next())
        bucket = F.col("time_bucket").alias("progress_bucket")
        no_bucket = F.lit(None).cast("bigint").alias("progress_bucket")
        next_numbers = self.reached.select(*SERIES, _next().alias("next_number"))
        incomplete = (
            lost.select(*SERIES, bucket)
            .unionByName(holes.select(*SERIES, no_bucket))
            .groupBy(*SERIES)
            .agg(F.max("progress_bucket").alias("progress_bucket"))
            .join(next_seen, on=[*SERIES], how="left_anti")
            .join(next_numbers, on=[*SERIES], how="left")
            .fillna(1, ["next_number"])
        )
        if self._source.searched is not None:
            searched_key = [*SERIES, "next_number"]
            incomplete = incomplete.join(self._source.searched, on=searched_key, how="left_anti")
        return incomplete.localCheckpoint()


def _next() -> Column:
    """Return the number that a series waits for."""
    return F.coalesce(F.col("reached_number"), F.lit(0)) + 1


def _is_lost() -> Column:
    """Return whether the progress of a series records more events than were read."""
    return (F.col("progress_number") >= _next()) & ~_is_deleted()


def _is_deleted() -> Column:
    """Return whether all events in a series' progress were deleted, and none was consumed."""
    is_deleted = F.col("deleted_to") >= F.col("progress_sequence_nr")
    return F.col("stored_number").isNull() & F.coalesce(is_deleted, F.lit(False))


@shaped(planned=shapes.KEYS, others=shapes.KEYS, returns=shapes.CANDIDATES)
def _joined(
    run: RunContext,
    batch: Batch,
    planned: DataFrame,
    others: DataFrame,
    *,
    takes_older: bool = False,
) -> DataFrame:
    """Join planned and other keys, leaving out other keys in planned buckets."""
    not_planned = _with_bucket_state(run, batch, others, takes_older).where(~F.col("is_planned"))
    rows = _with_bucket_state(run, batch, planned, takes_older).unionByName(not_planned)
    return rows.drop("is_planned").localCheckpoint(eager=False)


def _with_bucket_state(
    run: RunContext, batch: Batch, rows: DataFrame, takes_older: bool = False
) -> DataFrame:
    planned, plan = batch.planned, batch.plan
    buckets = local_rows(
        run.spark,
        [(bucket, bucket in planned) for bucket in sorted(planned | batch.done)],
        "time_bucket bigint, is_planned boolean",
    )
    is_older = F.col("time_bucket") < plan.first
    is_done = F.col("is_planned").isNotNull() | (is_older & F.lit(takes_older))
    is_planned = F.coalesce(F.col("is_planned"), F.lit(False))
    return rows.join(F.broadcast(buckets), on="time_bucket", how="left").withColumns(
        {
            "is_there": (is_done | is_older) & (F.col("time_bucket") < plan.end),
            "is_before": is_older & ~F.lit(takes_older),
            "is_late": is_done & ~is_planned,
            "is_planned": is_planned,
        }
    )
