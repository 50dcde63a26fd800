"""What a run looks at to know how far each series goes: keys without payloads, wherever they are.

The rows of the planned buckets are read before and handed in; what is seen of them is only what
was read, so that nothing can be accepted that is not processed.
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
"""Time buckets of the first step of a search; each step doubles what was searched."""


@dataclass(frozen=True)
class Candidates:
    """The candidates of a batch and the frontiers that follow from them; both in memory.

    Attributes:
        rows: CANDIDATES.
        reached: FRONTIERS, with the mark of `resets.with_restart_marks`.
        restarted: RESTARTED; None if the projection does not ask.
        has_met_all: whether runs before this batch have seen all persistence ids that there were:
            one without an offset is new.
    """

    rows: DataFrame
    reached: DataFrame
    restarted: DataFrame | None = None
    has_met_all: bool = False


@shaped(planned=shapes.KEYS, stored=shapes.STORED, unread=shapes.KEYS)
def find_candidates(
    source: EventSource,
    batch: Batch,
    planned: DataFrame,
    stored: DataFrame,
    unread: DataFrame | None = None,
    *,
    has_offsets: bool,
) -> Candidates:
    """Find the candidates of each series, wherever they lie.

    Args:
        source: the events of the projection.
        batch: what is processed.
        planned: the rows of the buckets to process.
        stored: of all series; what begins with a snapshot now is among them.
        unread: the events after those, if they have been read; the source is not asked then.
        has_offsets: whether runs before have stored an offset.
    """
    if isinstance(source, TagsSource):
        return _by_tag_pid_sequence_nr(source, batch, planned, stored)
    if unread is None:
        unread = read.numbered(source.unread(batch, planned, stored)).select(*KEYS)
    return by_sequence_nr(
        source.run,
        batch,
        planned,
        stored,
        unread,
        source.deleted(),
        source.written(),
        has_met_all=has_offsets or bool(batch.done),
    )


@shaped(
    planned=shapes.KEYS,
    stored=shapes.STORED,
    unread=shapes.KEYS,
    deleted=shapes.DELETED,
    written=shapes.WRITTEN,
)
def by_sequence_nr(
    run: RunContext,
    batch: Batch,
    planned: DataFrame,
    stored: DataFrame,
    unread: DataFrame,
    deleted: DataFrame,
    written: DataFrame | None = None,
    *,
    has_met_all: bool,
) -> Candidates:
    """Place the planned rows and what else is unread, each persistence id being a series.

    Args:
        run: the context of the run.
        batch: what is processed.
        planned: the rows of the buckets to process.
        stored: of all series.
        unread: events behind what was consumed; those in planned buckets are ignored.
        deleted: of all persistence ids.
        written: how far each series was written, if numbers may be left out; a number up to
            there that is absent was never given to an event. None if every number is given.
        has_met_all: as in `Candidates`.
    """
    rows = _placed(run, batch, planned, unread, takes_older=has_met_all and batch.takes_older)
    after, restarted = batch.definition.reset_after, None
    if after is not None:
        restarted = restarts.restarted_ids(rows, stored, deleted, after).localCheckpoint()
        rows = resets.of_present_life(rows, restarted).localCheckpoint()
    if written is not None:
        rows = rule.jumping(rows, written).localCheckpoint()
    reached = rule.advance_frontiers(
        rows,
        resets.with_restarts(stored, restarted),
        deleted,
        truncated_from=batch.plan.truncated_from,
    )
    marked = resets.with_restart_marks(reached, restarted).localCheckpoint()
    return Candidates(rows, marked, restarted, has_met_all)


def _by_tag_pid_sequence_nr(
    source: TagsSource, batch: Batch, planned: DataFrame, stored: DataFrame
) -> Candidates:
    """Collect planned rows and those of the look-back, then search for missing numbers."""
    search = _Search(source, batch, stored)
    search.look(planned, batch.look_back(source.run.settings))
    search.look_further()
    if len(source.definition.source.series_tags) == 1:
        return Candidates(search.rows, search.reached)
    return Candidates(search.rows, rule.align_tags(search.reached, search.rows))


class _Search:
    """Tag views, bucket by bucket, until no number of any series is missing or all was seen."""

    def __init__(self, source: TagsSource, batch: Batch, stored: DataFrame) -> None:
        self._source, self._run, self._batch, self._stored = source, source.run, batch, stored
        # Not eager: kept by the first job that needs it, without one of its own.
        self._deleted = source.deleted().localCheckpoint(eager=False)
        progress = source.progress().withColumnRenamed("progress_bucket", "time_bucket")
        # Read before the rows, since it is written after them: what it speaks of is among those.
        self._progress = progress.localCheckpoint()
        self._seen: set[int] = set(batch.time_buckets)

    def look(self, planned: DataFrame, time_buckets: Iterable[int]) -> None:
        """Begin with the planned rows and some buckets more."""
        around = self._source.keys_in(self._unseen(time_buckets)).select(*KEYS)
        self.rows = _placed(self._run, self._batch, planned, around)
        self._judge()

    def look_further(self) -> None:
        """Search where the progress points, then back from the window's end, in doubling steps."""
        if self._batch.plan.truncated_from is not None:
            self._look_where_events_wait()
        if self._is_complete():
            return
        lacking = self._lacking()
        pointed = lacking.where(F.col("progress_bucket").isNotNull()).select("progress_bucket")
        self._add([row.progress_bucket for row in pointed.distinct().collect()], lacking)
        settings, plan = self._run.settings, self._batch.plan
        first = min(settings.first_time_bucket, plan.first)
        end, width = plan.end, SEARCHED_FIRST * settings.bucket_size.milliseconds
        while end > first and not (lacking := self._lacking()).isEmpty():
            start = max(first, end - width)
            self._add(range(start, end, settings.bucket_size.milliseconds), lacking)
            end, width = start, 2 * width
        if end <= first:
            self._remember(self._lacking())

    def _remember(self, lacking: DataFrame) -> None:
        """Leave out of the searches of later batches what was searched everywhere in vain."""
        missing = lacking.select(*SERIES, "next_number")
        before = self._source.searched
        searched = missing if before is None else before.unionByName(missing)
        self._source.searched = searched.localCheckpoint()

    def _look_where_events_wait(self) -> None:
        """Search for events that seem purged in time buckets that may not be processed yet."""
        batch, size = self._batch, self._run.settings.bucket_size.milliseconds
        in_plan = range(batch.plan.first, batch.plan.end, size)
        waiting = set(in_plan) - batch.planned - batch.done
        is_new = F.col("stored_number").isNull() & F.col("reached_timeuuid").isNotNull()
        begun = self.reached.where(is_new & (F.col("base") > F.col("deleted_to")))
        if waiting and not begun.isEmpty():
            self._add(waiting, begun)

    def _add(self, time_buckets: Iterable[int], lacking: DataFrame) -> None:
        wanted = self._unseen(time_buckets)
        if wanted:
            self._run.say(f"searching {counted(len(wanted), 'time bucket')} for missing numbers")
            nothing = self.rows.limit(0).select(*KEYS)
            keys = self._source.keys_in(wanted).select(*KEYS)
            of_lacking = keys.join(lacking.select(*SERIES), on=[*SERIES], how="left_semi")
            more = _placed(self._run, self._batch, nothing, of_lacking.select(*KEYS))
            self.rows = self.rows.unionByName(more).localCheckpoint()
            self._judge()

    def _unseen(self, time_buckets: Iterable[int]) -> list[int]:
        """Return the time buckets not searched before; they count as searched from now on."""
        wanted = sorted(set(time_buckets) - self._seen)
        self._seen.update(wanted)
        return wanted

    def _judge(self) -> None:
        reached = rule.advance_frontiers(
            self.rows, self._stored, self._deleted, truncated_from=self._batch.plan.truncated_from
        )
        self.reached = reached.localCheckpoint()

    def _is_complete(self) -> bool:
        """Return whether no series lacks a number: the usual case, found in one pass."""
        is_hole = F.col("highest_number") > F.col("reached_number")
        known = self.reached.join(self._reachable_progress(), on=[*SERIES], how="full")
        totals = known.agg(
            F.bool_or(is_hole).alias("holes"), F.bool_or(_is_lost()).alias("lost")
        ).collect()[0]
        return not (totals.holes or totals.lost)

    def _reachable_progress(self) -> DataFrame:
        progress = _with_place(self._run, self._batch, self._progress)
        return progress.where(F.col("is_there") & ~F.col("is_before"))

    def _lacking(self) -> DataFrame:
        """Return the series whose next number is not found, though there are higher numbers.

        Columns: SERIES, progress_bucket (of the last event by the progress; may be null),
        next_number.
        """
        limits = self.reached.select(*SERIES, "reached_number", "stored_number", "deleted_to")
        beyond = self.rows.where(F.col("is_there") & ~F.col("is_before")).join(limits, on=[*SERIES])
        holes = beyond.where(F.col("number") > F.col("reached_number"))
        lost = self._reachable_progress().join(limits, on=[*SERIES], how="left").where(_is_lost())
        present = self.rows.join(limits, on=[*SERIES]).where(F.col("number") == _next())
        bucket = F.col("time_bucket").alias("progress_bucket")
        nowhere = F.lit(None).cast("bigint").alias("progress_bucket")
        next_numbers = self.reached.select(*SERIES, _next().alias("next_number"))
        lacking = (
            lost.select(*SERIES, bucket)
            .unionByName(holes.select(*SERIES, nowhere))
            .groupBy(*SERIES)
            .agg(F.max("progress_bucket").alias("progress_bucket"))
            .join(present, on=[*SERIES], how="left_anti")
            .join(next_numbers, on=[*SERIES], how="left")
            .fillna(1, ["next_number"])
        )
        if self._source.searched is not None:
            known = [*SERIES, "next_number"]
            lacking = lacking.join(self._source.searched, on=known, how="left_anti")
        return lacking.localCheckpoint()


def _next() -> Column:
    """Return the number that a series waits for."""
    return F.coalesce(F.col("reached_number"), F.lit(0)) + 1


def _is_lost() -> Column:
    """Return whether the progress of a series names more events than were read."""
    return (F.col("progress_number") >= _next()) & ~_is_gone()


def _is_gone() -> Column:
    """Return whether all that a series' progress names was deleted, and none of it consumed."""
    is_deleted = F.col("deleted_to") >= F.col("progress_sequence_nr")
    return F.col("stored_number").isNull() & F.coalesce(is_deleted, F.lit(False))


@shaped(planned=shapes.KEYS, elsewhere=shapes.KEYS, returns=shapes.CANDIDATES)
def _placed(
    run: RunContext,
    batch: Batch,
    planned: DataFrame,
    elsewhere: DataFrame,
    *,
    takes_older: bool = False,
) -> DataFrame:
    """Join planned and other keys; of planned buckets only keys that are to be processed."""
    others = _with_place(run, batch, elsewhere, takes_older).where(~F.col("is_planned"))
    rows = _with_place(run, batch, planned, takes_older).unionByName(others)
    return rows.drop("is_planned").localCheckpoint(eager=False)


def _with_place(
    run: RunContext, batch: Batch, rows: DataFrame, takes_older: bool = False
) -> DataFrame:
    planned, plan = batch.planned, batch.plan
    places = local_rows(
        run.spark,
        [(bucket, bucket in planned) for bucket in sorted(planned | batch.done)],
        "time_bucket bigint, is_planned boolean",
    )
    is_older = F.col("time_bucket") < plan.first
    is_done = F.col("is_planned").isNotNull() | (is_older & F.lit(takes_older))
    is_planned = F.coalesce(F.col("is_planned"), F.lit(False))
    return rows.join(F.broadcast(places), on="time_bucket", how="left").withColumns(
        {
            "is_there": (is_done | is_older) & (F.col("time_bucket") < plan.end),
            "is_before": is_older & ~F.lit(takes_older),
            "is_late": is_done & ~is_planned,
            "is_planned": is_planned,
        }
    )
