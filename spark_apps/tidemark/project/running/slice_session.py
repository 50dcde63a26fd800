"""Processes the slices of one run, and records the resulting states in the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tidemark.context import RunContext
from tidemark.errors import LockLost
from tidemark.ledger.claim import Claim
from tidemark.ledger.locks import Locks
from tidemark.ledger.piece import Piece, State
from tidemark.ledger.rollup import PieceRollup, roll_up
from tidemark.partitioning import slice_ranges
from tidemark.partitioning.keys import SliceRange
from tidemark.partitioning.slice_ranges import Portion
from tidemark.project.acceptance.accept import MissingEventPolicy
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.offset_store import slice_records
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.offset_store.slice_records import SlicePart
from tidemark.project.planning.batch import Batch
from tidemark.project.planning.plan import APPLICATION, ProjectionPlan, ledger
from tidemark.project.planning.slices import open_pieces
from tidemark.project.running.outcome import ProjectionOutcome
from tidemark.project.running.process import process_claimed


@dataclass(frozen=True)
class _SliceRecorder:
    """Records the results of time buckets for a range of slices."""

    run: RunContext
    store: OffsetStore
    version: str
    slices: SliceRange

    def start(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """Record nothing: if this run dies, the next one finds the late events again."""
        return ()

    def finish(
        self,
        pieces: Sequence[Piece],
        state: State,
        counts: Mapping[int, Mapping[str, int]],
        error: str | None,
    ) -> None:
        """Record the results of pieces in these slices."""
        now = slice_records.now()
        parts = [
            SlicePart(
                piece.time_bucket,
                self.slices,
                piece.attempt,
                self.version,
                state,
                counts.get(piece.time_bucket, {}),
                error,
                now,
            )
            for piece in pieces
        ]
        slice_records.record(
            self.store,
            parts,
            owner=self.run.owner,
            run_id=self.run.run_id,
        )


class SliceSession:
    """The slices of one run, under the locks of all of them."""

    def __init__(self, run: RunContext, plan: ProjectionPlan, locks: Locks) -> None:
        self._run, self._plan, self._locks = run, plan, locks
        self._store = OffsetStore.of(run, plan.definition)
        self._ledger = ledger(run, plan.definition)
        self._version = plan.definition.fingerprint
        self._open()

    def _open(self) -> None:
        """Record in the ledger that this version of the definition works on parts of the pieces."""
        entries, _ = open_pieces(self._run, self._plan.definition)
        closed = [
            piece
            for piece in self._plan.pieces
            if (entry := entries.get(piece.time_bucket)) is None
            or not slice_records.is_open(entry, self._version)
        ]
        # If a run on other slices was first, this run shares its attempt.
        with suppress(LockLost):
            self._ledger.start(closed, owner=self._run.owner, run_id=self._run.run_id)
        self._entries, self._parts = open_pieces(self._run, self._plan.definition)
        self._pieces = {
            piece.time_bucket: replace(piece, attempt=entry.attempt)
            for piece in self._plan.pieces
            if (entry := self._entries.get(piece.time_bucket)) is not None
            and slice_records.is_open(entry, self._version)
        }
        if self._plan.slicing is not None and self._plan.slicing.force:
            self._forget()

    def _forget(self) -> None:
        """Delete the parts of this run's slices, so that they are processed again."""
        slices = self._plan.slices
        overlapping = [
            part
            for bucket in self._plan.time_buckets
            for part in self._parts.get(bucket, ())
            if part.slices.first <= slices.last and slices.first <= part.slices.last
        ]
        self._locks.check()
        slice_records.forget(self._store, overlapping)
        _, self._parts = open_pieces(self._run, self._plan.definition)

    def process(
        self, analyzed: AnalyzedDefinition, policy: MissingEventPolicy, total: ProjectionOutcome
    ) -> None:
        """Process the pending slices of all time buckets, and add the outcomes to `total`."""
        done = slice_records.done(self._parts)
        buckets = [bucket for bucket in self._plan.time_buckets if bucket in self._pieces]
        done_slices = {bucket: done.get(bucket, []) for bucket in buckets}
        portions = slice_ranges.portions([self._plan.slices], done_slices)
        outcomes = [self._portion(portion, analyzed, policy) for portion in portions]
        _add_up(outcomes, set(buckets), total)

    def _portion(
        self, portion: Portion, analyzed: AnalyzedDefinition, policy: MissingEventPolicy
    ) -> ProjectionOutcome:
        self._run.say(f"{self._plan.definition.name}: slices {slice_ranges.text(portion.slices)}")
        done = slice_records.done(self._parts)
        slices = portion.slices
        done_before = {
            bucket for bucket, ranges in done.items() if not slice_ranges.missing(slices, ranges)
        }
        pieces = [self._pieces[bucket] for bucket in sorted(portion.time_buckets)]
        batch = Batch(self._plan, slices, pieces, self._plan.done | done_before)
        recorder = _SliceRecorder(self._run, self._store, self._version, slices)
        claimed = Claim(pieces, self._locks, recorder)
        outcome = ProjectionOutcome()
        with claimed.failed_on_error():
            process_claimed(self._run, claimed, batch, analyzed, policy, outcome)
        return outcome

    def roll_up(self) -> None:
        """Write the states of the pieces to the ledger, from the parts of all runs."""
        self._locks.check()
        _, parts = open_pieces(self._run, self._plan.definition)
        waiting = [
            PieceRollup(bucket, piece.attempt, State.HELD, error=self._plan.waits_for)
            for bucket, piece in self._pieces.items()
            if bucket in self._plan.held
        ]
        rollups = [
            slice_records.rolled_up_state(piece, parts.get(bucket, ()))
            for bucket, piece in self._pieces.items()
            if bucket not in self._plan.held
        ]
        settings = self._run.settings
        roll_up(
            self._run.control,
            settings.keyspace,
            APPLICATION,
            self._store.subject,
            settings.bucket_size,
            [*waiting, *rollups],
            owner=self._run.owner,
        )
        complete = [rollup.time_bucket for rollup in rollups if rollup.state is State.DONE]
        slice_records.forget_buckets(self._store, complete)


def _add_up(
    outcomes: Sequence[ProjectionOutcome], buckets: set[int], total: ProjectionOutcome
) -> None:
    """Add up the outcomes of ranges: a time bucket is done if it is done in each range."""
    for outcome in outcomes:
        total.totals.update(outcome.totals)
        total.gaps = outcome.gaps | total.gaps
        total.failed = outcome.failed | total.failed
        total.statuses |= outcome.statuses
        total.warnings += outcome.warnings
        total.fields.add(outcome.fields)
    total.gaps = {bucket: why for bucket, why in total.gaps.items() if bucket not in total.failed}
    total.counts = {bucket: {} for bucket in (buckets | total.gaps.keys()) - total.failed.keys()}
