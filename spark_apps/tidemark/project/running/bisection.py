"""Retries a batch that fails because of its events in halves, until failing pieces are alone.

Only these are recorded as failed. Later pieces are processed as if failed pieces were absent:
acceptance holds back events whose predecessor was not consumed, as after any gap.
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
from tidemark.ledger.piece import GAP_ERROR, Piece, Reason, State
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
"""Failed pieces after which a run gives up: events are hardly the cause, and retries cost."""
_EARLIER = {
    Reason.GAP,
    Reason.HISTORY,
    Reason.MISSED,
    Reason.REBUCKETED,
    Reason.RESTATED,
    Reason.UNFINISHED,
}
_SHOWN = 5
_EVENT_ERRORS = (TidemarkError, WrongData, DefinitionError)
"""Errors about events, results and users' functions. Their subclasses mean that a lock, Cassandra,
a table or the history is missing, for each half as well."""

RunBatch = Callable[[Batch, set[int]], BatchOutcome]
"""Like `Pipeline.run_batch`: processes a batch, and adds the buckets it reopens to the set."""


@dataclass(frozen=True)
class Bisection:
    """Processes the batches of one projection, and splits those that fail.

    A strict policy has only one batch, which is never split.
    """

    run: RunContext
    claimed: Claim
    definition: Definition
    policy: MissingEventPolicy
    outcome: ProjectionOutcome
    run_batch: RunBatch

    def process(self, batch: Batch) -> BatchSize:
        """Process a batch; return the size of the parts that succeeded.

        Failed pieces are added to `outcome.failed` and recorded in the ledger.

        Raises:
            TidemarkError: too many pieces have failed.
            Exception: a failure that events did not cause; any failure if the policy is strict.
        """
        if self.policy.strict:
            return self._run_batch(batch, set())
        # No event of the failed buckets was consumed, whether they were done before or not.
        return self._try_remaining(batch.not_reopening(self.outcome.failed.keys()), set())

    def _run_batch(self, batch: Batch, reopened: set[int]) -> BatchSize:
        outcome = self.run_batch(batch, reopened)
        self.outcome.add(outcome)
        return outcome.size

    def _try_remaining(self, batch: Batch, tried: set[int]) -> BatchSize:
        """Try a batch without buckets that cannot be made again; `tried` as in `_try_batch`."""
        while batch.pieces:
            try:
                return self._try_batch(batch, tried)
            except BucketsLost as error:
                batch = self._leave_out(batch, error)
        return BatchSize()

    def _try_batch(self, batch: Batch, tried: set[int]) -> BatchSize:
        """Try a batch, and parts of it if it fails; `tried` are buckets of batches that failed."""
        if len(self.outcome.failed) - len(self.outcome.lost) >= MOST_FAILED:
            raise _given_up(self.outcome)
        reopened: set[int] = set()
        try:
            return self._run_batch(batch, reopened)
        except Exception as error:
            # A lost lock or a signal cancels Spark jobs, whose errors look like any others.
            self.claimed.check()
            if not is_of_events(error):
                raise
            if not reopened & tried:
                # A late bucket that was added to the batch may be the cause.
                units = sorted(batch.planned | reopened)
                why = self._record_failure(units, error)
        if reopened & tried:
            return self._try_remaining(self._not_reopening(batch, reopened & tried), tried)
        if len(units) == 1:
            return BatchSize()
        tried.update(units)
        return self._in_halves(batch, units, why, tried)

    def _leave_out(self, batch: Batch, error: BucketsLost) -> Batch:
        """Return a batch without buckets that have lost events; their pieces stay open."""
        late = error.buckets.keys() - batch.planned
        if late:
            self.claimed.extend(late_pieces(self.run, self.definition, late))
        leave_out(self.claimed, self.outcome, error.buckets)
        return batch.leaving_out(error.buckets.keys())

    def _not_reopening(self, batch: Batch, tried: set[int]) -> Batch:
        """Return a batch that does not reopen buckets of other parts: they could never be alone."""
        error = f"{GAP_ERROR} what is late in it waits for the next run"
        self.claimed.finish_some(tried, State.HELD, {}, error)
        self.outcome.gaps |= dict.fromkeys(tried, error)
        return batch.not_reopening(tried)

    def _in_halves(
        self, batch: Batch, units: Sequence[int], why: str, tried: set[int]
    ) -> BatchSize:
        failures_before = len(self.outcome.failed), len(self.outcome.warnings)
        sizes = [self._try_remaining(half, tried) for half in self._halves(batch, units)]
        if failures_before == (len(self.outcome.failed), len(self.outcome.warnings)):
            # A check of several rows, such as unique, may concern more than one time bucket.
            warning = f"warning: {len(units):,} buckets failed together, and none of them alone"
            self.outcome.warnings.append(f"{warning}: {why}")
        rows = sum(size.rows for size in sizes)
        return BatchSize(rows, sum(size.payload_bytes for size in sizes))

    def _halves(self, batch: Batch, units: Sequence[int]) -> Iterator[Batch]:
        """Yield the older half and then, when it is processed, the newer half."""
        pieces = {piece.time_bucket: piece for piece in batch.pieces}
        full = replace(batch, pieces=[pieces.get(unit, Piece(unit, Reason.LATE)) for unit in units])
        middle = len(units) // 2
        older, newer = units[:middle], units[middle:]
        failed, gaps = self.outcome.failed, self.outcome.gaps
        end = older[-1] + self.run.settings.bucket_size.milliseconds
        yield full.part(older, {*newer, *failed}, gaps, end)
        yield full.part(newer, failed.keys(), gaps, batch.end)

    def _record_failure(self, units: Sequence[int], error: Exception) -> str:
        """Report a failure and return it in a line; record it if it is of a single time bucket."""
        why = reason_of(error)
        name = self.definition.name
        if len(units) > 1:
            self.run.say(f"{name}: {len(units):,} buckets fail, trying them in halves: {why}")
            return why
        if not isinstance(error, TidemarkError):
            # Bug reports need the trace; the report has one line.
            traceback.print_exc(file=sys.stderr)
        self.run.say(f"{name}: {from_millis(units[0]):%Y-%m-%d %H:%M} fails: {why}")
        self.claimed.finish_some({units[0]}, State.FAILED, {}, why)
        status = error.exit_status if isinstance(error, TidemarkError) else 1
        self.outcome.fail(units[0], why, status)
        return why


def leave_out(
    claimed: Claim, outcome: ProjectionOutcome, buckets: Mapping[int, HistoryPurged]
) -> None:
    """Record the pieces of time buckets whose result cannot be made again.

    Raises:
        LockLost: another run has taken over a piece.
    """
    by_error: dict[str, set[int]] = {}
    for bucket, error in buckets.items():
        outcome.leave_out(bucket, error)
        by_error.setdefault(reason_of(error), set()).add(bucket)
    for why, failed in by_error.items():
        claimed.finish_some(failed, State.FAILED, {}, why)


def is_of_events(error: Exception) -> bool:
    """Return whether events may have caused the error, so that a part of the batch may succeed."""
    if isinstance(error, TidemarkError):
        return type(error) in _EVENT_ERRORS
    return is_of_rows(error)


def require_done(plan: ProjectionPlan, outcome: ProjectionOutcome) -> None:
    """Fail a projection with failed pieces, after all others are processed.

    Raises:
        TidemarkError: the error of the oldest failed piece, with the number of failed pieces.
    """
    if outcome.failed:
        number = len({*plan.time_buckets, *outcome.failed, *outcome.counts})
        if number == 1:
            (failure,) = outcome.failed.values()
        else:
            of_all = f"{counted(number, 'bucket')}{_outside_window(plan, outcome)}"
            failure = f"{len(outcome.failed):,} of {of_all}, {_first(outcome)}"
        raise together(failure, outcome.statuses)


def _outside_window(plan: ProjectionPlan, outcome: ProjectionOutcome) -> str:
    """Explain why a plan has more time buckets than the window."""
    earlier = sum(piece.reason in _EARLIER for piece in plan.pieces)
    late = len((outcome.failed.keys() | outcome.counts.keys()) - set(plan.time_buckets))
    parts = [f"{earlier:,} taken up from earlier runs"] if earlier else []
    parts += [f"{late:,} reopened by late events"] if late else []
    return f" ({', '.join(parts)})" if parts else ""


def _given_up(outcome: ProjectionOutcome) -> TidemarkError:
    failed = f"{counted(len(outcome.failed), 'bucket')}, and what is left was not tried"
    return together(f"{failed}, {_first(outcome)}", outcome.statuses)


def _first(outcome: ProjectionOutcome) -> str:
    bucket, why = min(outcome.failed.items())
    first = "" if len(outcome.failed) == 1 else "the first is "
    return f"{first}{from_millis(bucket):%Y-%m-%d %H:%M}: {why}"


def lines(name: str, outcome: ProjectionOutcome) -> list[str]:
    """Return lines about the failed pieces, for reports."""
    shown = sorted(outcome.failed.items())[:_SHOWN]
    more = len(outcome.failed) - len(shown)
    return [
        *(f"{name}: {from_millis(bucket):%Y-%m-%d %H:%M} failed: {why}" for bucket, why in shown),
        *([f"{name}: {more:,} more failed"] if more else []),
    ]
