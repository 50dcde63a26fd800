"""Taking events in: what of the planned buckets, and of which late ones, is processed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from tidemark.application import Run
from tidemark.errors import HistoryPurged, WrongData
from tidemark.journal import frames
from tidemark.ledger.claim import Claim
from tidemark.ledger.pieces import Piece, Reason
from tidemark.projection import acceptance, gaps, read, sightings, store
from tidemark.projection.acceptance import REJECTIONS, RESULT, SERIES, Result
from tidemark.projection.plan import Work, require_rows
from tidemark.projection.sightings import KEYS, Sightings

COUNT_OF = {
    str(Result.ACCEPTED): "accepted",
    str(Result.DUPLICATE): "duplicate",
    str(Result.REJECTED): "rejected_seq_nr",
    str(Result.REJECTED_BACKTRACKING): "rejected_backtracking_seq_nr",
}
COUNTS = (*COUNT_OF.values(), "first_encounters")
_NAMED = 3


@dataclass(frozen=True)
class Policy:
    """What a run does about events that are missing.

    Attributes:
        strict: a gap fails the projection before anything of it is written.
        accept_purged: events that were deleted before they were consumed are given up.
    """

    strict: bool = False
    accept_purged: bool = False


@dataclass
class Intake:
    """What is taken in.

    Attributes:
        rows: columns of `read.source_rows`; events that are held back are not among them.
        time_buckets: to process, ascending: the planned ones and the late ones.
        reached: as `acceptance.reach` makes it.
        counts: COUNTS by time bucket; only what is not 0.
        totals: of COUNTS.
        gaps: the error of each time bucket that has an event held back.
        cached: what `release` lets go.
    """

    rows: DataFrame
    time_buckets: Sequence[int]
    reached: DataFrame
    counts: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    totals: Mapping[str, int] = field(default_factory=dict)
    gaps: Mapping[int, str] = field(default_factory=dict)
    cached: Sequence[DataFrame] = ()

    def release(self) -> None:
        """Forget what is in memory."""
        for frame in self.cached:
            frame.unpersist()


def take(run: Run, claimed: Claim, work: Work, subject: str, policy: Policy) -> Intake:
    """Read the planned buckets, find how far each series goes, and add late buckets to the claim.

    Raises:
        HistoryPurged: events were deleted before they were consumed, or a late one lies in a
            bucket whose tag views were purged.
        WrongData: the policy is strict and there is a gap.
        LockLost: another run has started one of the late pieces.
    """
    spark, settings, definition = run.spark, run.settings, work.definition
    stored = store.stored_offsets(spark, settings, subject)
    rows = read.source_rows(spark, settings, definition, work.time_buckets)
    cached = [rows.persist(StorageLevel.MEMORY_AND_DISK)]
    look = sightings.of_messages if definition.tags is None else sightings.of_tags
    seen = look(run, work, rows.select(*KEYS), stored)
    seen = _without_purged(run, work, seen, stored, policy)
    late = _late_buckets(seen)
    if late:
        if definition.tags is not None:
            require_rows(run, definition, late)
        more = read.source_rows(spark, settings, definition, late)
        cached.append(more.persist(StorageLevel.MEMORY_AND_DISK))
        rows = rows.unionByName(more)
    taken = _judged(run, work, seen, rows, sorted({*work.time_buckets, *late}))
    if taken.gaps and policy.strict:
        _, error = min(taken.gaps.items())
        raise WrongData(
            f"{len(taken.gaps)} time buckets have events held back; {error}",
            where=definition.name,
            do="run again when the missing events are there, or without --strict",
        )
    claimed.extend(_pieces(work, late))
    taken.cached = cached
    return taken


def _without_purged(
    run: Run, work: Work, seen: Sightings, stored: DataFrame, policy: Policy
) -> Sightings:
    gone = gaps.purged(seen.reached, seen.rows).localCheckpoint()
    found = gone.orderBy(*SERIES).limit(_NAMED).collect()
    if not found:
        return seen
    if not policy.accept_purged:
        more = gone.count() - len(found)
        named = [
            f"{gaps.series_name(row.persistence_id, row.tag)}"
            f" {gaps.numbers(row.first_number, row.last_number)}"
            for row in found
        ] + ([f"and {more:,} more"] if more else [])
        raise HistoryPurged(
            "events were deleted before the projection consumed them: " + ", ".join(named),
            where=work.definition.name,
            do="bring them back, or give them up with --accept-purged",
        )
    given_up = stored.join(gone, on=[*SERIES], how="left").select(
        *SERIES,
        F.coalesce("last_number", "stored_number").alias("stored_number"),
        "stored_sequence_nr",
    )
    deleted = frames.deleted(run.spark, run.settings)
    reached = acceptance.reach(seen.rows, given_up, deleted)
    return Sightings(seen.rows, acceptance.agree(reached, seen.rows))


def _late_buckets(seen: Sightings) -> list[int]:
    limits = seen.reached.select(*SERIES, "base", "reached_number")
    late = seen.rows.where("is_late").join(limits, on=[*SERIES])
    is_accepted = (F.col("number") > F.col("base")) & (F.col("number") <= F.col("reached_number"))
    found = late.where(is_accepted).select("time_bucket").distinct().collect()
    return sorted(row.time_bucket for row in found)


def _pieces(work: Work, late: Sequence[int]) -> list[Piece]:
    attempts = {entry.time_bucket: entry.attempt for entry in work.ledger.entries()} if late else {}
    return [Piece(bucket, Reason.LATE, attempts[bucket]) for bucket in late]


def _judged(
    run: Run, work: Work, seen: Sightings, rows: DataFrame, time_buckets: Sequence[int]
) -> Intake:
    again = run.spark.createDataFrame(
        [(bucket, bucket in work.done) for bucket in time_buckets],
        "time_bucket bigint, is_back boolean",
    )
    placed = rows.join(F.broadcast(again), on="time_bucket")
    judged = acceptance.judge(placed, seen.reached, F.col("is_back"))
    taken = Intake(rows, time_buckets, seen.reached)
    taken.counts = _counts(judged)
    totals = sum((Counter(each) for each in taken.counts.values()), Counter[str]())
    totals[COUNT_OF[str(Result.REJECTED_BACKTRACKING)]] += _rejected_elsewhere(seen, again)
    totals["first_encounters"] = _first_encounters(seen)
    taken.totals = {name: totals[name] for name in COUNTS}
    rejections = [COUNT_OF[str(one)] for one in REJECTIONS]
    if any(name in each for each in taken.counts.values() for name in rejections):
        taken.gaps = gaps.errors(gaps.of_buckets(judged, seen.rows, seen.reached).collect())
        taken.rows = rows.join(
            acceptance.held_back(judged).localCheckpoint(),
            on=["persistence_id", "sequence_nr"],
            how="left_anti",
        )
    return taken


def _counts(judged: DataFrame) -> dict[int, dict[str, int]]:
    """Distinct numbers of series by time bucket."""
    distinct = judged.select("time_bucket", *SERIES, "number", RESULT).distinct()
    counts: dict[int, dict[str, int]] = {}
    for row in distinct.groupBy("time_bucket", RESULT).agg(F.count("*").alias("n")).collect():
        counts.setdefault(row.time_bucket, {})[COUNT_OF[row.result]] = row.n
    return counts


def _rejected_elsewhere(seen: Sightings, processed: DataFrame) -> int:
    """Late events behind a gap, in buckets that stay as they are."""
    limits = seen.reached.select(*SERIES, "reached_number")
    late = seen.rows.where("is_late").join(limits, on=[*SERIES])
    beyond = late.where(F.col("number") > F.col("reached_number"))
    beyond = beyond.join(F.broadcast(processed), on="time_bucket", how="left_anti")
    return beyond.select(*SERIES, "number").distinct().count()


def _first_encounters(seen: Sightings) -> int:
    """Series whose first events were deleted before the projection began."""
    is_new = F.col("stored_number").isNull() & F.col("reached_timestamp").isNotNull()
    is_deleted = (F.col("base") > 0) & (F.col("base") <= F.col("deleted_to"))
    return seen.reached.where(is_new & is_deleted).count()
