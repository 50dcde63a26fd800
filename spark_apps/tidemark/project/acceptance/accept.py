"""Step 3, accept: which events of a batch are processed, and which late time buckets with them."""

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
from tidemark.ledger.pieces import Piece, Reason
from tidemark.project.acceptance import (
    candidates,
    encounters,
    gaps,
    resets,
    rule,
    snapshots,
    whole_buckets,
)
from tidemark.project.acceptance.batch_rows import BatchRows
from tidemark.project.acceptance.candidates import Candidates
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
_MADE_AGAIN = (Reason.FORCED, Reason.RESTATED)
"""Why a time bucket is made again although it takes nothing in."""
_READS = 3
"""How often a batch is read whose late events vanish."""
COUNTS = (*COUNT_OF.values(), "first_encounters", "snapshots")


@dataclass(frozen=True)
class MissingEventPolicy:
    """What a run does about events that are missing.

    Attributes:
        strict: a gap fails the projection before anything of it is written.
        accept_purged: events that were deleted before they were consumed are given up.
        accepted_ids: the persistence ids of which they are.
    """

    strict: bool = False
    accept_purged: bool = False
    accepted_ids: frozenset[str] = frozenset()


@dataclass(frozen=True)
class AcceptedEvents:
    """The events of a batch that are processed.

    Attributes:
        rows: EVENTS, and is_snapshot if the definition starts from
            snapshots; events that are held back are not among them.
        time_buckets: to process, ascending: the planned ones and the late ones.
        reached: FRONTIERS.
        counts: COUNTS by time bucket; only what is not 0.
        totals: of COUNTS, without `beyond`.
        gaps: the error of each time bucket that has an event held back.
        missing: the numbers that those wait for, MISSING; bounded.
        is_single: no event is in two of the rows.
        beyond: the late events behind a gap, in time buckets that are not processed.
        warnings: for people.
        kept: the time buckets whose result stays as it is; their events are not in `rows`.
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
    kept: frozenset[int] = frozenset()

    @property
    def made_again(self) -> list[int]:
        """The time buckets whose results are made."""
        return [bucket for bucket in self.time_buckets if bucket not in self.kept]


@dataclass(frozen=True)
class Acceptance:
    """What decides which events of a projection are processed, bound once for all batches.

    Attributes:
        store: how far the projection has consumed its series.
        source: its events.
        policy: what to do about events that are missing.
    """

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
        """Read a batch, find how far each series goes, and add late time buckets to the claim.

        The rows that are read stay in memory until `in_memory` is closed. If a late event vanishes
        before its time bucket is read, all is read again.

        Raises:
            TidemarkError: late events vanish again and again.
            HistoryPurged: events were deleted before they were consumed, and the definition says
                that this fails it.
            BucketsLost: events are gone that the result of a time bucket was made from, whether it
                is planned or a late event lies in it; those buckets are to be left out.
            WrongData: the policy is strict and there is a gap.
            LockLost: another run has started one of the late pieces.
        """
        for _ in range(_READS):
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
        """Return what `accept` returns; None if a late event has vanished."""
        stored = self._stored(batch)
        read = BatchRows.read(self.source, batch, stored, in_memory)
        rows = read.planned
        begin, consumed = None, stored
        if self._definition.starts_from_snapshots:
            begin = snapshots.find_starts(self.source, batch, rows, stored)
            consumed = snapshots.begun(stored, begin)
        seen = candidates.find_candidates(
            self.source,
            batch,
            read.planned_keys,
            consumed,
            read.unread_keys,
            has_offsets=not stored.isEmpty(),
        )
        met = encounters.count_encounters(seen)
        warnings = met.warnings
        if met.suspects:
            seen, more = self._without_purged(batch, seen, consumed)
            warnings += more
        may_be_late = seen.has_met_all or batch.done - batch.planned
        late, beyond = encounters.find_late(seen) if may_be_late else ([], {})
        if late:
            self._require_unpurged(late)
            late_rows = read.late(late)
            if encounters.has_lost(seen, late_rows):
                return None
            rows = rows.unionByName(late_rows)
        time_buckets = sorted({*batch.time_buckets, *late})
        # What was seen is neither the late rows, read afterwards, nor those of a former life.
        is_repeated = bool(late or met.repeated) or seen.restarted is not None
        validated = rule.validate_events(
            _placed(self._run, rows, time_buckets, batch.done), seen.reached, F.col("is_back")
        )
        counts = _counts(validated, is_repeated=is_repeated)
        totals = {**_totals(counts), "first_encounters": met.first}
        is_held = any(name in of_bucket for of_bucket in counts.values() for name in REJECTED)
        held = gaps.find_held_back(validated, seen.rows, seen.reached) if is_held else HeldBack()
        kept = self._kept_buckets(batch, validated, time_buckets, counts)
        rows = held.without(rows)
        if kept:
            rows = rows.where(~F.col("time_bucket").isin(*kept))
        rows = skips.without(rows, skips.stored(self.store))
        reached = seen.reached
        if begin is not None:
            rows = snapshots.take_in(self._run, rows, seen, begin, stored)
            reached = snapshots.marked(reached, begin).localCheckpoint()
            totals["snapshots"] = begin.count()
        if self.policy.strict:
            _require_no_gap(self._definition, held.errors)
        if late:
            claimed.extend(late_pieces(self._run, self._definition, late))
        # Those of unsettled buckets were counted by the batch that held them back.
        known = batch.unsettled.union(late)
        # A snapshot is a row beside its event's, and so are the tags of an event.
        is_one_row = begin is None and len(self._definition.source.series_tags) == 1
        return AcceptedEvents(
            rows,
            time_buckets,
            reached,
            counts,
            totals,
            held.errors,
            held.missing,
            is_single=is_one_row and not is_repeated,
            beyond=sum(number for bucket, number in beyond.items() if bucket not in known),
            warnings=warnings,
            kept=kept,
        )

    def _stored(self, batch: Batch) -> DataFrame:
        stored = consumption.stored_offsets(self.store, self._run.spark, batch.slices)
        is_ours = F.col("tag").isin(*self._definition.source.series_tags)
        return self.source.only_entity_types(stored.where(is_ours))

    def _kept_buckets(
        self,
        batch: Batch,
        validated: DataFrame,
        time_buckets: Sequence[int],
        counts: Mapping[int, Mapping[str, int]],
    ) -> frozenset[int]:
        """Return the time buckets whose result stands, see `whole_buckets.require_whole`."""
        if self.policy.accept_purged or not self._definition.mode.replaces_buckets:
            return frozenset()
        to_change = {piece.time_bucket for piece in batch.pieces if piece.reason in _MADE_AGAIN}
        to_change |= {bucket for bucket, of_bucket in counts.items() if of_bucket.get("accepted")}
        return whole_buckets.require_whole(self.store, validated, time_buckets, to_change)

    def _require_unpurged(self, late: Sequence[int]) -> None:
        if self.policy.accept_purged:
            return
        if gone := purged_buckets(self._run, self._definition, late):
            raise BucketsLost(gone, self._definition.name)

    def _without_purged(
        self, batch: Batch, seen: Candidates, stored: DataFrame
    ) -> tuple[Candidates, list[str]]:
        """Give up events that were deleted before they were consumed, as far as that is accepted.

        What is behind others is held as behind any gap, and told in warnings.
        """
        gone = gaps.purged(seen.reached, seen.rows).localCheckpoint()
        policy, if_deleted = self.policy, self._definition.if_deleted
        is_accepted = F.col("persistence_id").isin(*policy.accepted_ids)
        is_accepted |= F.lit(policy.accept_purged or if_deleted is IfDeleted.ACCEPT)
        held = gone.where(~is_accepted)
        named = held.orderBy(*SERIES).limit(gaps.NAMED).collect()
        purged = gaps.purged_error(self._definition, named, held.count()) if named else None
        if purged and if_deleted is IfDeleted.FAIL:
            raise purged
        warnings = [f"warning: {purged.what}; {purged.do}"] if purged else []
        last = gone.where(is_accepted).select(*SERIES, "last_number")
        if last.isEmpty():
            return seen, warnings
        given_up = resets.with_restarts(stored, seen.restarted).join(last, on=[*SERIES], how="left")
        given_up = given_up.withColumn("stored_number", F.coalesce("last_number", "stored_number"))
        reached = rule.advance_frontiers(
            seen.rows,
            given_up.drop("last_number"),
            self.source.deleted(),
            truncated_from=batch.plan.truncated_from,
        )
        reached = rule.align_tags(reached.localCheckpoint(), seen.rows)
        marked = resets.with_restart_marks(reached, seen.restarted)
        return replace(seen, reached=marked), warnings


def late_pieces(run: RunContext, definition: Definition, late: Collection[int]) -> list[Piece]:
    """Return the pieces of time buckets with late events.

    They are done, or lie before the projection's first one.
    """
    entries = ledger(run, definition).entries_of(late)
    attempts = {entry.time_bucket: entry.attempt for entry in entries}
    return [Piece(bucket, Reason.LATE, attempts.get(bucket, 0)) for bucket in late]


def _placed(
    run: RunContext, rows: DataFrame, time_buckets: Sequence[int], done: Collection[int]
) -> DataFrame:
    """Mark the rows of time buckets where the projection has been before, as is_back."""
    places = local_rows(
        run.spark,
        [(bucket, bucket in done) for bucket in time_buckets],
        "time_bucket bigint, is_back boolean",
    )
    return rows.join(F.broadcast(places), on="time_bucket")


def _counts(validated: DataFrame, *, is_repeated: bool) -> dict[int, dict[str, int]]:
    """Count the distinct numbers of series by time bucket."""
    distinct = validated.select("time_bucket", *SERIES, "number", RESULT)
    if is_repeated:
        distinct = distinct.distinct()
    counts: dict[int, dict[str, int]] = {}
    for row in distinct.groupBy("time_bucket", RESULT).agg(F.count("*").alias("n")).collect():
        counts.setdefault(row.time_bucket, {})[COUNT_OF[row.result]] = row.n
    return counts


def _totals(counts: Mapping[int, Mapping[str, int]]) -> dict[str, int]:
    totals = sum((Counter(of_bucket) for of_bucket in counts.values()), Counter[str]())
    return {name: totals[name] for name in COUNTS}


def _require_no_gap(definition: Definition, gaps_of: Mapping[int, str]) -> None:
    if gaps_of:
        _, error = min(gaps_of.items())
        raise WrongData(
            f"{counted(len(gaps_of), 'time bucket')} with events held back; {error}",
            where=definition.name,
            do="run again when the missing events are there, or without --strict",
        )
