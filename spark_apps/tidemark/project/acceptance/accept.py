"""Step 3, accept: decide which events and which late time buckets a batch processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.errors import TidemarkError, WrongData
from tidemark.journals.pekko.series import SERIES
from tidemark.ledger.claim import Claim
from tidemark.ledger.piece import Piece, Reason
from tidemark.project.acceptance import (
    encounters,
    gaps,
    resets,
    rule,
    snapshots,
    whole_buckets,
)
from tidemark.project.acceptance.batch_rows import BatchRows
from tidemark.project.acceptance.candidates import Candidates, find_candidates
from tidemark.project.acceptance.gaps import HeldBack
from tidemark.project.acceptance.rule import REJECTIONS, RESULT, Validation
from tidemark.project.acceptance.whole_buckets import BucketsLost
from tidemark.project.definition.model import Definition, IfDeleted
from tidemark.project.offset_store import consumption, skips
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning.batch import Batch
from tidemark.project.planning.plan import ledger, purged_buckets
from tidemark.project.sources.base import EventSource
from tidemark.spark.local_rows import local_rows
from tidemark.text import counted

COUNT_OF = {
    str(Validation.ACCEPTED): "accepted",
    str(Validation.DUPLICATE): "duplicate",
    str(Validation.REJECTED): "rejected_seq_nr",
    str(Validation.REJECTED_BACKTRACKING): "rejected_backtracking_seq_nr",
}
REJECTED = tuple(COUNT_OF[str(rejection)] for rejection in REJECTIONS)
_REMAKE_REASONS = (Reason.FORCED, Reason.RESTATED)
"""Reasons to make the result of a time bucket again although no event of it is new."""
_READ_ATTEMPTS = 3
"""Attempts to read a batch whose late events are deleted meanwhile."""
COUNTS = (*COUNT_OF.values(), "first_encounters", "snapshots")


@dataclass(frozen=True)
class MissingEventPolicy:
    """What a run does about missing events.

    Attributes:
        strict: a gap fails the projection before any of its results are written.
        accept_purged: give up events that were deleted before they were consumed.
        accepted_ids: persistence ids whose deleted events are given up in any case.
    """

    strict: bool = False
    accept_purged: bool = False
    accepted_ids: frozenset[str] = frozenset()


@dataclass(frozen=True)
class AcceptedEvents:
    """The events of a batch that are processed.

    Attributes:
        rows: EVENTS without those held back; has is_snapshot if the definition starts from
            snapshots.
        time_buckets: planned and late time buckets to process, ascending.
        reached: FRONTIERS.
        counts: COUNTS by time bucket, without zeros.
        totals: the total of each of COUNTS.
        gaps: the error of each time bucket in which an event is held back.
        missing: MISSING, the numbers that events held back wait for; bounded.
        is_single: no event is in two rows.
        beyond: number of late events after a gap, in time buckets that are not processed.
        unchanged: time buckets whose result stays; `rows` has none of their events.
    """

    rows: DataFrame
    time_buckets: Sequence[int]
    reached: DataFrame
    counts: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    totals: Mapping[str, int] = field(default_factory=dict)
    gaps: Mapping[int, str] = field(default_factory=dict)
    missing: Sequence[Row] = ()
    is_single: bool = False
    beyond: int = 0
    warnings: Sequence[str] = ()
    unchanged: frozenset[int] = frozenset()

    @property
    def result_buckets(self) -> list[int]:
        """The time buckets whose results the batch makes."""
        return [bucket for bucket in self.time_buckets if bucket not in self.unchanged]


@dataclass(frozen=True)
class Acceptance:
    """Decides which events of a projection are processed; one instance for all batches."""

    store: OffsetStore
    source: EventSource
    policy: MissingEventPolicy

    @property
    def _run(self) -> RunContext:
        return self.source.run

    @property
    def _definition(self) -> Definition:
        return self.source.definition

    def accept(self, batch: Batch, claimed: Claim, in_memory: ExitStack) -> AcceptedEvents:
        """Read a batch, find the frontiers, and add late time buckets to the claim.

        The rows stay in memory until `in_memory` is closed. If a late event is deleted before its
        time bucket is read, the whole batch is read again.

        Raises:
            TidemarkError: late events were deleted during every attempt to read them.
            HistoryPurged: events were deleted before they were consumed, and the definition says
                `deleted-before-consumed: fail`.
            BucketsLost: events that the result of a planned or late time bucket was made from no
                longer exist; the caller leaves these buckets out.
            WrongData: the policy is strict and there is a gap.
            LockLost: another run has started one of the late pieces.
        """
        for _ in range(_READ_ATTEMPTS):
            accepted = self._accepted(batch, claimed, in_memory)
            if accepted is not None:
                return accepted
        raise TidemarkError(
            "late events are deleted while they are read",
            where=self._definition.name,
            do="run again; nothing was written",
        )

    def _accepted(
        self, batch: Batch, claimed: Claim, in_memory: ExitStack
    ) -> AcceptedEvents | None:
        """Return what `accept` returns; None if a late event was deleted meanwhile."""
        offsets = self._offsets(batch)
        batch_rows = BatchRows.read(self.source, batch, offsets, in_memory)
        rows = batch_rows.planned
        starts, consumed = None, offsets
        if self._definition.starts_from_snapshots:
            starts = snapshots.find_starts(self.source, batch, rows, offsets)
            consumed = snapshots.with_starts(offsets, starts)
        candidates = find_candidates(
            self.source,
            batch,
            batch_rows.planned_keys,
            consumed,
            batch_rows.unread_keys,
            has_offsets=not offsets.isEmpty(),
        )
        encountered = encounters.count_encounters(candidates)
        warnings = encountered.warnings
        if encountered.suspects:
            candidates, purged_warnings = self._without_purged(batch, candidates, consumed)
            warnings += purged_warnings
        late_buckets, beyond = self._find_late(batch, candidates)
        if late_buckets:
            self._require_unpurged(late_buckets)
            late_rows = batch_rows.late(late_buckets)
            if encounters.has_lost(candidates, late_rows):
                return None
            rows = rows.unionByName(late_rows)
        time_buckets = sorted({*batch.time_buckets, *late_buckets})
        # Candidates have neither late rows, which are read afterwards, nor rows of a former life.
        is_repeated = bool(late_buckets or encountered.repeated) or candidates.restarted is not None
        validated = rule.validate_events(
            _with_is_back(self._run, rows, time_buckets, batch.done),
            candidates.reached,
            F.col("is_back"),
        )
        counts = _counts(validated, is_repeated=is_repeated)
        totals = {**_totals(counts), "first_encounters": encountered.first}
        has_rejected = any(name in of_bucket for of_bucket in counts.values() for name in REJECTED)
        held_back = HeldBack()
        if has_rejected:
            held_back = gaps.find_held_back(validated, candidates.rows, candidates.reached)
        unchanged = self._unchanged_buckets(batch, validated, time_buckets, counts)
        rows = held_back.without(rows)
        if unchanged:
            rows = rows.where(~F.col("time_bucket").isin(*unchanged))
        rows = skips.without(rows, skips.stored(self.store))
        reached = candidates.reached
        if starts is not None:
            rows = snapshots.take_in(self.source, rows, candidates, starts, offsets)
            reached = snapshots.marked(reached, starts).localCheckpoint()
            totals["snapshots"] = starts.count()
        if self.policy.strict:
            _require_no_gap(self._definition, held_back.errors)
        if late_buckets:
            claimed.extend(late_pieces(self._run, self._definition, late_buckets))
        # The batch that held back events of unsettled buckets has counted them.
        counted_before = batch.unsettled.union(late_buckets)
        # A snapshot has a row besides that of its event, and so has each further tag of an event.
        is_row_per_event = starts is None and len(self._definition.source.series_tags) == 1
        return AcceptedEvents(
            rows,
            time_buckets,
            reached,
            counts,
            totals,
            held_back.errors,
            held_back.missing,
            is_single=is_row_per_event and not is_repeated,
            beyond=sum(events for bucket, events in beyond.items() if bucket not in counted_before),
            warnings=warnings,
            unchanged=unchanged,
        )

    def _find_late(self, batch: Batch, candidates: Candidates) -> tuple[list[int], dict[int, int]]:
        """Return the time buckets to read again, and counts of late events after a gap."""
        if not (candidates.has_met_all or batch.done - batch.planned):
            return [], {}
        accepted, beyond = encounters.find_late(candidates)
        if self.source.finds_late_again:
            return accepted, beyond
        # Each run reads a time bucket whose events are held back, until the gap is closed.
        return sorted({*accepted, *(beyond.keys() - batch.unsettled)}), beyond

    def _offsets(self, batch: Batch) -> DataFrame:
        offsets = consumption.stored_offsets(self.store, self._run.spark, batch.slices)
        is_ours = F.col("tag").isin(*self._definition.source.series_tags)
        return self.source.only_entity_types(offsets.where(is_ours))

    def _unchanged_buckets(
        self,
        batch: Batch,
        validated: DataFrame,
        time_buckets: Sequence[int],
        counts: Mapping[int, Mapping[str, int]],
    ) -> frozenset[int]:
        """Return the time buckets whose result stays, see `whole_buckets.require_complete`."""
        if self.policy.accept_purged or not self._definition.mode.replaces_buckets:
            return frozenset()
        to_change = {piece.time_bucket for piece in batch.pieces if piece.reason in _REMAKE_REASONS}
        to_change |= {bucket for bucket, of_bucket in counts.items() if of_bucket.get("accepted")}
        return whole_buckets.require_complete(self.store, validated, time_buckets, to_change)

    def _require_unpurged(self, late_buckets: Sequence[int]) -> None:
        if self.policy.accept_purged:
            return
        if purged := purged_buckets(self._run, self._definition, late_buckets):
            raise BucketsLost(purged, self._definition.name)

    def _without_purged(
        self, batch: Batch, candidates: Candidates, offsets: DataFrame
    ) -> tuple[Candidates, list[str]]:
        """Give up events that were deleted before they were consumed, where that is accepted.

        Elsewhere, events after the deleted ones are held back as after any gap, with a warning.
        """
        purged_ranges = gaps.purged(candidates.reached, candidates.rows).localCheckpoint()
        policy, if_deleted = self.policy, self._definition.if_deleted
        is_accepted = F.col("persistence_id").isin(*policy.accepted_ids)
        is_accepted |= F.lit(policy.accept_purged or if_deleted is IfDeleted.ACCEPT)
        not_accepted = purged_ranges.where(~is_accepted)
        examples = not_accepted.orderBy(*SERIES).limit(gaps.NAMED).collect()
        error = (
            gaps.purged_error(self._definition, examples, not_accepted.count())
            if examples
            else None
        )
        if error and if_deleted is IfDeleted.FAIL:
            raise error
        warnings = [f"warning: {error.what}; {error.do}"] if error else []
        last_purged = purged_ranges.where(is_accepted).select(*SERIES, "last_number")
        if last_purged.isEmpty():
            return candidates, warnings
        given_up = resets.with_restarts(offsets, candidates.restarted).join(
            last_purged, on=[*SERIES], how="left"
        )
        given_up = given_up.withColumn("stored_number", F.coalesce("last_number", "stored_number"))
        reached = rule.advance_frontiers(
            candidates.rows,
            given_up.drop("last_number"),
            self.source.deleted(),
            truncated_from=batch.plan.truncated_from,
        )
        reached = rule.align_tags(reached.localCheckpoint(), candidates.rows)
        marked = resets.with_restart_marks(reached, candidates.restarted)
        return replace(candidates, reached=marked), warnings


def late_pieces(
    run: RunContext, definition: Definition, late_buckets: Collection[int]
) -> list[Piece]:
    """Return the pieces of time buckets with late events.

    Such buckets are done, or older than the projection's first time bucket.
    """
    entries = ledger(run, definition).entries_of(late_buckets)
    attempts = {entry.time_bucket: entry.attempt for entry in entries}
    return [Piece(bucket, Reason.LATE, attempts.get(bucket, 0)) for bucket in late_buckets]


def _with_is_back(
    run: RunContext, rows: DataFrame, time_buckets: Sequence[int], done: Collection[int]
) -> DataFrame:
    """Add is_back: whether the projection has processed the time bucket of a row before."""
    buckets = local_rows(
        run.spark,
        [(bucket, bucket in done) for bucket in time_buckets],
        "time_bucket bigint, is_back boolean",
    )
    return rows.join(F.broadcast(buckets), on="time_bucket")


def _counts(validated: DataFrame, *, is_repeated: bool) -> dict[int, dict[str, int]]:
    """Count the distinct numbers of all series by time bucket and result."""
    results = validated.select("time_bucket", *SERIES, "number", RESULT)
    if is_repeated:
        results = results.distinct()
    counts: dict[int, dict[str, int]] = {}
    for row in results.groupBy("time_bucket", RESULT).agg(F.count("*").alias("n")).collect():
        counts.setdefault(row.time_bucket, {})[COUNT_OF[row.result]] = row.n
    return counts


def _totals(counts: Mapping[int, Mapping[str, int]]) -> dict[str, int]:
    totals = sum((Counter(of_bucket) for of_bucket in counts.values()), Counter[str]())
    return {name: totals[name] for name in COUNTS}


def _require_no_gap(definition: Definition, gap_errors: Mapping[int, str]) -> None:
    if gap_errors:
        _, error = min(gap_errors.items())
        raise WrongData(
            f"{counted(len(gap_errors), 'time bucket')} with events held back; {error}",
            where=definition.name,
            do="run again when the missing events are there, or without --strict",
        )
