"""A batch that its events make fail is tried again in halves, until the pieces that fail are alone.

Only those are recorded as failed. What comes later is processed as if they were not there yet: an
event whose predecessor was not consumed is held back by the rules of acceptance, as behind any gap.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemark.context import RunContext
from tidemark.errors import (
    DefinitionError,
    HistoryPurged,
    TidemarkError,
    WrongData,
    reason_of,
    together,
)
from tidemark.ledger.claim import Claim
from tidemark.ledger.pieces import GAP_ERROR, Piece, Reason, State
from tidemark.project.acceptance.accept import MissingEventPolicy, late_pieces
from tidemark.project.acceptance.whole_buckets import BucketsLost
from tidemark.project.definition.model import Definition
from tidemark.project.planning.batch import Batch
from tidemark.project.planning.plan import ProjectionPlan
from tidemark.project.running.outcome import BatchOutcome, BatchSize, ProjectionOutcome
from tidemark.spark.row_errors import is_of_rows
from tidemark.text import counted
from tidemark.window import from_millis

MOST_FAILED = 16
"""Pieces of a run: if more fail, it is hardly the events, and each one costs several attempts."""
_EARLIER = {
    Reason.GAP,
    Reason.HISTORY,
    Reason.MISSED,
    Reason.REBUCKETED,
    Reason.RESTATED,
    Reason.UNFINISHED,
}
_SHOWN = 5
_FORESEEN = (TidemarkError, WrongData, DefinitionError)
"""What an event, a result or a function of the user's is refused with; their subclasses say that a
lock, Cassandra, a table or the history is missing, which no half has."""


RunBatch = Callable[[Batch, set[int]], BatchOutcome]
"""As `Pipeline.run_batch`: processes a batch, and fills the set with the buckets it reopens."""


@dataclass(frozen=True)
class Bisection:
    """What becomes of the batches of one projection that fail.

    Attributes:
        run: the context of the run.
        claimed: their pieces.
        definition: the projection.
        policy: if it is strict, the one batch fails as a whole.
        outcome: of the projection so far.
        run_batch: processes a batch.
    """

    run: RunContext
    claimed: Claim
    definition: Definition
    policy: MissingEventPolicy
    outcome: ProjectionOutcome
    run_batch: RunBatch

    def process(self, batch: Batch) -> BatchSize:
        """Process a batch; returns the size of all that could be processed.

        The pieces that failed are in `outcome.failed`, and recorded in the ledger.

        Raises:
            TidemarkError: too many pieces have failed.
            Exception: what its events are not to blame for; or anything if the policy is strict.
        """
        if self.policy.strict:
            return self._run_batch(batch, set())
        # Nothing of them was consumed, whether they were done before or not.
        return self._tried(batch.not_reopening(self.outcome.failed.keys()), set())

    def _run_batch(self, batch: Batch, reopened: set[int]) -> BatchSize:
        ended = self.run_batch(batch, reopened)
        self.outcome.add(ended)
        return ended.size

    def _tried(self, batch: Batch, seen: set[int]) -> BatchSize:
        """Try a batch without what cannot be made again; `seen` as in `_attempted`."""
        while batch.pieces:
            try:
                return self._attempted(batch, seen)
            except BucketsLost as error:
                batch = self._left_out(batch, error)
        return BatchSize()

    def _attempted(self, batch: Batch, seen: set[int]) -> BatchSize:
        """Try a batch, and parts of it if it fails; `seen` were in a batch that was taken apart."""
        if len(self.outcome.failed) - len(self.outcome.lost) >= MOST_FAILED:
            raise _given_up(self.outcome)
        late: set[int] = set()
        try:
            return self._run_batch(batch, late)
        except Exception as error:
            # A lost lock or a signal cancels Spark's jobs, whose errors look like any other.
            self.claimed.check()
            if not is_of_events(error):
                raise
            if not late & seen:
                # A late bucket that was added to the batch may be the one at fault.
                units = sorted(batch.planned | late)
                why = self._note(units, error)
        if late & seen:
            return self._tried(self._without(batch, late & seen), seen)
        if len(units) == 1:
            return BatchSize()
        seen.update(units)
        return self._in_halves(batch, units, why, seen)

    def _left_out(self, batch: Batch, error: BucketsLost) -> Batch:
        """Return a batch that leaves alone what events are gone of; their pieces stay open."""
        late = error.buckets.keys() - batch.planned
        if late:
            self.claimed.extend(late_pieces(self.run, self.definition, late))
        leave_out(self.claimed, self.outcome, error.buckets)
        return batch.leaving_out(error.buckets.keys())

    def _without(self, batch: Batch, again: set[int]) -> Batch:
        """Return a batch that does not reopen what was tried by itself: it would never be alone."""
        waits = f"{GAP_ERROR} what is late in it waits for the next run"
        self.claimed.finish_some(again, State.HELD, {}, waits)
        self.outcome.gaps |= dict.fromkeys(again, waits)
        return batch.not_reopening(again)

    def _in_halves(self, batch: Batch, units: Sequence[int], why: str, seen: set[int]) -> BatchSize:
        before = len(self.outcome.failed), len(self.outcome.warnings)
        sizes = [self._tried(half, seen) for half in self._halves(batch, units)]
        if before == (len(self.outcome.failed), len(self.outcome.warnings)):
            # A check of several rows, such as unique, may concern more than one time bucket.
            what = f"warning: {len(units):,} buckets failed together, and none of them alone"
            self.outcome.warnings.append(f"{what}: {why}")
        rows = sum(size.rows for size in sizes)
        return BatchSize(rows, sum(size.payload_bytes for size in sizes))

    def _halves(self, batch: Batch, units: Sequence[int]) -> Iterator[Batch]:
        """Yield the older half, and when it is over the other one."""
        pieces = {piece.time_bucket: piece for piece in batch.pieces}
        whole = replace(
            batch, pieces=[pieces.get(unit, Piece(unit, Reason.LATE)) for unit in units]
        )
        middle = len(units) // 2
        older, newer = units[:middle], units[middle:]
        failed, gaps = self.outcome.failed, self.outcome.gaps
        end = older[-1] + self.run.settings.bucket_size.milliseconds
        yield whole.part(older, {*newer, *failed}, gaps, end)
        yield whole.part(newer, failed.keys(), gaps, batch.end)

    def _note(self, units: Sequence[int], error: Exception) -> str:
        """Report a failure, record it if it is of a single time bucket, and return it in a line."""
        why = reason_of(error)
        name = self.definition.name
        if len(units) > 1:
            self.run.say(f"{name}: {len(units):,} buckets fail, trying them in halves: {why}")
            return why
        if not isinstance(error, TidemarkError):
            # The trace is what a bug report needs; the report's one line is what everybody reads.
            traceback.print_exc(file=sys.stderr)
        self.run.say(f"{name}: {from_millis(units[0]):%Y-%m-%d %H:%M} fails: {why}")
        self.claimed.finish_some({units[0]}, State.FAILED, {}, why)
        status = error.exit_status if isinstance(error, TidemarkError) else 1
        self.outcome.fail(units[0], why, status)
        return why


def leave_out(
    claimed: Claim, outcome: ProjectionOutcome, buckets: Mapping[int, HistoryPurged]
) -> None:
    """Record the pieces of time buckets that cannot be made again from what is there.

    Raises:
        LockLost: another run has taken a piece over.
    """
    by_error: dict[str, set[int]] = {}
    for bucket, error in buckets.items():
        outcome.leave_out(bucket, error)
        by_error.setdefault(reason_of(error), set()).add(bucket)
    for why, failed in by_error.items():
        claimed.finish_some(failed, State.FAILED, {}, why)


def is_of_events(error: Exception) -> bool:
    """Return whether its events may have made a batch fail, so that a part of them may succeed."""
    if isinstance(error, TidemarkError):
        return type(error) in _FORESEEN
    return is_of_rows(error)


def require_done(plan: ProjectionPlan, outcome: ProjectionOutcome) -> None:
    """Fail a projection of which pieces have failed, when all others are processed.

    Raises:
        TidemarkError: the error of the oldest failed piece, with the number of failed pieces.
    """
    if outcome.failed:
        number = len({*plan.time_buckets, *outcome.failed, *outcome.counts})
        if number == 1:
            (what,) = outcome.failed.values()
        else:
            number_of = f"{counted(number, 'bucket')}{_beside_the_new(plan, outcome)}"
            what = f"{len(outcome.failed):,} of {number_of}, {_first(outcome)}"
        raise together(what, outcome.statuses)


def _beside_the_new(plan: ProjectionPlan, outcome: ProjectionOutcome) -> str:
    """Explain why a plan has more time buckets than the window."""
    earlier = sum(piece.reason in _EARLIER for piece in plan.pieces)
    late = len((outcome.failed.keys() | outcome.counts.keys()) - set(plan.time_buckets))
    parts = [f"{earlier:,} taken up from earlier runs"] if earlier else []
    parts += [f"{late:,} reopened by late events"] if late else []
    return f" ({', '.join(parts)})" if parts else ""


def _given_up(outcome: ProjectionOutcome) -> TidemarkError:
    what = f"{counted(len(outcome.failed), 'bucket')}, and what is left was not tried"
    return together(f"{what}, {_first(outcome)}", outcome.statuses)


def _first(outcome: ProjectionOutcome) -> str:
    bucket, why = min(outcome.failed.items())
    first = "" if len(outcome.failed) == 1 else "the first is "
    return f"{first}{from_millis(bucket):%Y-%m-%d %H:%M}: {why}"


def lines(name: str, outcome: ProjectionOutcome) -> list[str]:
    """Return the pieces that failed, as lines for reports."""
    shown = sorted(outcome.failed.items())[:_SHOWN]
    more = len(outcome.failed) - len(shown)
    return [
        *(f"{name}: {from_millis(bucket):%Y-%m-%d %H:%M} failed: {why}" for bucket, why in shown),
        *([f"{name}: {more:,} more failed"] if more else []),
    ]
