"""Taking events in: what of the planned buckets, and of which late ones, is processed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from tidemark.context import RunContext
from tidemark.errors import HistoryPurged, WrongData
from tidemark.journal import series
from tidemark.journal.series import NO_TAG, SERIES
from tidemark.ledger.claim import Claim
from tidemark.ledger.pieces import Piece, Reason
from tidemark.projection.acceptance import candidates, gaps, resets, rule, snapshots, whole_buckets
from tidemark.projection.acceptance.candidates import KEYS, Candidates
from tidemark.projection.acceptance.rule import REJECTIONS, RESULT, Validation
from tidemark.projection.acceptance.whole_buckets import BucketsLost
from tidemark.projection.definition.model import Definition
from tidemark.projection.offset_store import consumption, skips
from tidemark.projection.planning.plan import Work, emptied
from tidemark.projection.sources import registry, scope
from tidemark.projection.sources.base import Reader
from tidemark.spark.local_rows import local_rows
from tidemark.text import counted

COUNT_OF = {
    str(Validation.ACCEPTED): "accepted",
    str(Validation.DUPLICATE): "duplicate",
    str(Validation.REJECTED): "rejected_seq_nr",
    str(Validation.REJECTED_BACKTRACKING): "rejected_backtracking_seq_nr",
}
REJECTED = tuple(COUNT_OF[str(one)] for one in REJECTIONS)
_MADE_AGAIN = (Reason.FORCED, Reason.RESTATED)
"""Why a time bucket is made again although it takes nothing in."""
_MISSING = 10_000
"""Ranges of missing numbers of a batch that are kept."""
COUNTS = (*COUNT_OF.values(), "first_encounters", "snapshots")


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
class AcceptedEvents:
    """What is taken in.

    Attributes:
        rows: columns of `Reader.rows`, and is_snapshot if the definition starts from snapshots;
            events that are held back are not among them.
        time_buckets: to process, ascending: the planned ones and the late ones.
        reached: as `acceptance.advance_frontiers` makes it.
        counts: COUNTS by time bucket; only what is not 0.
        totals: of COUNTS, without `beyond`.
        gaps: the error of each time bucket that has an event held back.
        missing: the numbers that those wait for, as `gaps.missing` has them; bounded.
        is_single: no event is in two of the rows.
        beyond: the late events behind a gap, in time buckets that are not processed.
        warnings: for people.
        standing: the time buckets whose result stays as it is; their events are not in `rows`.
        cached: what `release` lets go.
    """

    rows: DataFrame
    time_buckets: Sequence[int]
    reached: DataFrame
    counts: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    gaps: Mapping[int, str] = field(default_factory=dict)
    missing: Sequence[Row] = ()
    is_single: bool = False
    beyond: int = 0
    warnings: Sequence[str] = ()
    standing: frozenset[int] = frozenset()
    cached: Sequence[DataFrame] = ()

    def release(self) -> None:
        """Forget what is in memory."""
        for frame in self.cached:
            frame.unpersist()


def accept(
    run: RunContext, claimed: Claim, work: Work, subject: str, policy: Policy
) -> AcceptedEvents:
    """Read the planned buckets, find how far each series goes, and add late buckets to the claim.

    Raises:
        HistoryPurged: events were deleted before they were consumed.
        BucketsLost: events are gone that the result of a time bucket was made from, whether it is
            planned or a late event lies in it; those buckets are to be left out.
        WrongData: the policy is strict and there is a gap.
        LockLost: another run has started one of the late pieces.
    """
    spark, settings, definition = run.spark, run.settings, work.definition
    is_ours = F.col("tag").isin(list(definition.tags or [NO_TAG]))
    stored = consumption.stored_offsets(spark, settings, subject, work.slices).where(is_ours)
    stored = scope.of_types(stored, definition)
    reader = registry.reader(definition.source)
    rows = scope.planned_rows(run, work, reader)
    cached = [rows.persist(StorageLevel.MEMORY_AND_DISK)]
    begin, consumed = None, stored
    if definition.starts_from_snapshots:
        begin = snapshots.starts(run, work, rows, stored)
        consumed = snapshots.begun(stored, begin)
    seen = candidates.of_source(run, work, reader, rows.select(*KEYS), consumed)
    first_encounters, suspects, repeated, unprocessed = _encounters(seen)
    if suspects:
        seen = _without_purged(run, work, reader, seen, consumed, policy)
    late, beyond = _late(seen) if work.done - work.planned else ([], {})
    if late:
        if not policy.accept_purged:
            _require_unpurged(run, definition, late)
        more = scope.source_rows(run, work, reader, late)
        cached.append(more.persist(StorageLevel.MEMORY_AND_DISK))
        rows = rows.unionByName(more)
    time_buckets = sorted({*work.time_buckets, *late})
    # What was seen is neither the late rows, read afterwards, nor those of a former life.
    is_repeated = bool(late or repeated) or seen.anew is not None
    taken, judged = _judged(run, work, seen, rows, time_buckets, is_repeated=is_repeated)
    taken.cached = cached
    taken.standing = _require_whole(run, work, judged, taken, policy)
    if taken.standing:
        taken.rows = taken.rows.where(~F.col("time_bucket").isin(*taken.standing))
    taken.rows = skips.without(taken.rows, skips.stored(run.control, settings, subject))
    if begin is not None:
        taken.rows = snapshots.take_in(run, taken.rows, seen, begin, stored)
        taken.reached = snapshots.marked(taken.reached, begin).localCheckpoint()
        taken.totals["snapshots"] = begin.count()
    # Those of unsettled buckets were counted by the batch that held them back.
    known = work.unsettled.union(late)
    taken.beyond = sum(number for bucket, number in beyond.items() if bucket not in known)
    taken.totals["first_encounters"] = first_encounters
    taken.warnings = _warnings(unprocessed)
    # A snapshot is a row beside its event's, and so are the tags of an event.
    is_one_row = begin is None and len(definition.tags or [NO_TAG]) == 1
    taken.is_single = is_one_row and not is_repeated
    if policy.strict:
        _require_no_gap(definition, taken.gaps)
    if late:
        claimed.extend(late_pieces(work, late))
    return taken


def _require_whole(
    run: RunContext, work: Work, judged: DataFrame, taken: AcceptedEvents, policy: Policy
) -> frozenset[int]:
    """The time buckets whose result stands, see `made.require_whole`."""
    if policy.accept_purged or not work.definition.mode.replaces_buckets:
        return frozenset()
    to_change = {piece.time_bucket for piece in work.pieces if piece.reason in _MADE_AGAIN}
    to_change |= {bucket for bucket, counts in taken.counts.items() if counts.get("accepted")}
    try:
        return whole_buckets.require_whole(
            run, work.definition, judged, taken.time_buckets, to_change
        )
    except BucketsLost:
        taken.release()
        raise


def _warnings(unprocessed: int) -> list[str]:
    if not unprocessed:
        return []
    return [
        f"warning: {unprocessed:,} series have events before the projection's first time"
        " bucket that came after it had begun: they are consumed, and in no result"
    ]


def late_pieces(work: Work, late: Collection[int]) -> list[Piece]:
    """The pieces of time buckets that are done, to be done again since late events are in them."""
    known = {entry.time_bucket: entry.attempt for entry in work.ledger.entries()}
    return [Piece(each, Reason.LATE, known[each]) for each in late]


def _require_unpurged(run: RunContext, definition: Definition, late: Sequence[int]) -> None:
    if gone := emptied(run, definition, late):
        raise BucketsLost(gone, definition.name)


def _require_no_gap(definition: Definition, found: Mapping[int, str]) -> None:
    if found:
        _, error = min(found.items())
        raise WrongData(
            f"{counted(len(found), 'time bucket')} with events held back; {error}",
            where=definition.name,
            do="run again when the missing events are there, or without --strict",
        )


def _encounters(seen: Candidates) -> tuple[int, int, int, int]:
    """How many series began behind deleted events, may have lost some since, have some twice.

    And how many are consumed over events that lie before the projection's first time bucket.
    """
    is_new = F.col("stored_number").isNull() & F.col("reached_timestamp").isNotNull()
    is_deleted = (F.col("base") > 0) & (F.col("base") <= F.col("deleted_to"))
    consumed_to = F.when(F.col("tag") == NO_TAG, F.col("reached_number")).otherwise(
        F.col("reached_sequence_nr")
    )
    is_suspect = F.col("stored_number").isNotNull() & (F.col("deleted_to") > consumed_to)
    found = seen.reached.agg(
        F.count_if(is_new & is_deleted).alias("first"),
        F.count_if(is_suspect).alias("suspects"),
        F.count_if("is_repeated").alias("repeated"),
        F.count_if(F.col("first_before") <= F.col("reached_number")).alias("unprocessed"),
    ).collect()[0]
    return found["first"], found["suspects"], found["repeated"], found["unprocessed"]


def _without_purged(
    run: RunContext, work: Work, reader: Reader, seen: Candidates, stored: DataFrame, policy: Policy
) -> Candidates:
    gone = gaps.purged(seen.reached, seen.rows).localCheckpoint()
    found = gone.orderBy(*SERIES).limit(gaps.NAMED).collect()
    if not found:
        return seen
    if not policy.accept_purged:
        more = gone.count() - len(found)
        named = [
            f"{series.series_name(row.persistence_id, row.tag)}"
            f" {series.numbers(row.first_number, row.last_number)}"
            for row in found
        ] + ([f"and {more:,} more"] if more else [])
        raise HistoryPurged(
            "events were deleted before the projection consumed them: " + ", ".join(named),
            where=work.definition.name,
            do="bring them back, or give them up with --accept-purged",
        )
    last = gone.select(*SERIES, "last_number")
    given_up = resets.with_restarts(stored, seen.anew).join(last, on=[*SERIES], how="left")
    given_up = given_up.withColumn("stored_number", F.coalesce("last_number", "stored_number"))
    deleted = reader.deleted(run.spark, run.settings)
    reached = rule.advance_frontiers(
        seen.rows, given_up.drop("last_number"), deleted, is_beheaded=work.is_beheaded
    )
    reached = rule.align_tags(reached.localCheckpoint(), seen.rows)
    return Candidates(seen.rows, resets.with_restart_marks(reached, seen.anew), seen.anew)


def _late(seen: Candidates) -> tuple[list[int], dict[int, int]]:
    """The done buckets with an accepted event, and by bucket the late events behind a gap."""
    limits = seen.reached.select(*SERIES, "base", "reached_number")
    late = seen.rows.where("is_late").select("time_bucket", *SERIES, "number").distinct()
    is_beyond = F.col("number") > F.col("reached_number")
    is_accepted = (F.col("number") > F.col("base")) & ~is_beyond
    by_bucket = late.join(limits, on=[*SERIES]).groupBy("time_bucket")
    found = (
        by_bucket.agg(
            F.count_if(is_accepted).alias("accepted"), F.count_if(is_beyond).alias("beyond")
        )
        .where("accepted > 0 OR beyond > 0")
        .collect()
    )
    accepted = sorted(row.time_bucket for row in found if row.accepted)
    return accepted, {row.time_bucket: row.beyond for row in found if row.beyond}


def _judged(
    run: RunContext,
    work: Work,
    seen: Candidates,
    rows: DataFrame,
    time_buckets: Sequence[int],
    *,
    is_repeated: bool,
) -> tuple[AcceptedEvents, DataFrame]:
    """What is taken in, and the rows as `acceptance.validate_events` makes them."""
    again = local_rows(
        run.spark,
        [(bucket, bucket in work.done) for bucket in time_buckets],
        "time_bucket bigint, is_back boolean",
    )
    placed = rows.join(F.broadcast(again), on="time_bucket")
    judged = rule.validate_events(placed, seen.reached, F.col("is_back"))
    taken = AcceptedEvents(rows, time_buckets, seen.reached)
    taken.counts = _counts(judged, is_repeated=is_repeated)
    totals = sum((Counter(each) for each in taken.counts.values()), Counter[str]())
    taken.totals = {name: totals[name] for name in COUNTS}
    if any(name in each for each in taken.counts.values() for name in REJECTED):
        found = gaps.of_buckets(judged, seen.rows, seen.reached).localCheckpoint()
        taken.gaps = gaps.errors(gaps.named(found).collect())
        taken.missing = gaps.missing(found).limit(_MISSING).collect()
        taken.rows = rows.join(
            rule.held_back(judged).localCheckpoint(),
            on=["persistence_id", "sequence_nr"],
            how="left_anti",
        )
    return taken, judged


def _counts(judged: DataFrame, *, is_repeated: bool) -> dict[int, dict[str, int]]:
    """Distinct numbers of series by time bucket."""
    distinct = judged.select("time_bucket", *SERIES, "number", RESULT)
    if is_repeated:
        distinct = distinct.distinct()
    counts: dict[int, dict[str, int]] = {}
    for row in distinct.groupBy("time_bucket", RESULT).agg(F.count("*").alias("n")).collect():
        counts.setdefault(row.time_bucket, {})[COUNT_OF[row.result]] = row.n
    return counts
