"""A batch that its events make fail is tried again in halves, until the pieces that fail are alone.

Only those are recorded as failed. What comes later is processed as if they were not there yet: an
event whose predecessor was not consumed is held back by the rules of acceptance, as behind any gap.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    PythonException,
    SparkRuntimeException,
)

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
from tidemark.projection.acceptance.accept import Policy, late_pieces
from tidemark.projection.acceptance.whole_buckets import BucketsLost
from tidemark.projection.planning.plan import Work
from tidemark.projection.running.batches import part
from tidemark.projection.running.outcome import ProjectionOutcome
from tidemark.text import counted
from tidemark.window import from_millis

MOST_FAILED = 16
"""Pieces of a run: if more fail, it is hardly the events, and each one costs several attempts."""
_EARLIER = {Reason.GAP, Reason.MISSED, Reason.REBUCKETED, Reason.RESTATED, Reason.UNFINISHED}
_SHOWN = 5
_ERROR_LENGTH = 2000
_FORESEEN = (TidemarkError, WrongData, DefinitionError)
"""What an event, a result or a function of the user's is refused with; their subclasses say that a
lock, Cassandra, a table or the history is missing, which no half has."""
_SPARKS = (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    PythonException,
    SparkRuntimeException,
)
_JVMS = re.compile(
    r"org\.apache\.spark\.api\.python\.PythonException"
    r"|org\.apache\.spark\.Spark(Arithmetic|ArrayIndexOutOfBounds|DateTime|NumberFormat|Runtime)"
    r"Exception"
    r"|java\.lang\.(Arithmetic|NumberFormat|Runtime)Exception|java\.time\.[.\w]*Exception"
)
"""Of a failed Spark job, the JVM's own cause: Python of the user's, `raise_error`, arithmetic."""


class Attempt(Protocol):
    """One try at some time buckets."""

    @property
    def time_buckets(self) -> Sequence[int]:
        """Those planned, and once they are known the late ones."""

    def run_all(self, policy: Policy, done: ProjectionOutcome) -> tuple[int, int]:
        """Do it; how many events were read, and the bytes of their payloads."""


@dataclass(frozen=True)
class Bisection:
    """The batches of one projection, and what is made of those that fail.

    Attributes:
        run: the application's frame.
        claimed: their pieces.
        policy: if it is strict, the one batch fails as a whole.
        done: what came of the projection so far.
        begin: makes an attempt.
    """

    run: RunContext
    claimed: Claim
    policy: Policy
    done: ProjectionOutcome
    begin: Callable[[Work], Attempt]

    def work_off(self, batch: Work) -> tuple[int, int]:
        """Process a batch; returns what `Attempt.run_all` returns, of all that could be processed.

        The pieces that failed are in `done.failed`, and recorded in the ledger.

        Raises:
            TidemarkError: too many pieces have failed.
            Exception: what its events are not to blame for; or anything if the policy is strict.
        """
        if self.policy.strict:
            return self.begin(batch).run_all(self.policy, self.done)
        # Nothing of them was consumed, whether they were done before or not.
        return self._tried(replace(batch, done=batch.done - self.done.failed.keys()), set())

    def _tried(self, batch: Work, seen: set[int]) -> tuple[int, int]:
        """Try a batch without what cannot be made again; `seen` as in `_attempted`."""
        while batch.pieces:
            try:
                return self._attempted(batch, seen)
            except BucketsLost as error:
                batch = self._left_out(batch, error)
        return 0, 0

    def _attempted(self, batch: Work, seen: set[int]) -> tuple[int, int]:
        """Try a batch, and parts of it if it fails; `seen` were in a batch that was taken apart."""
        if len(self.done.failed) - len(self.done.lost) >= MOST_FAILED:
            raise _given_up(self.done)
        attempt = self.begin(batch)
        try:
            return attempt.run_all(self.policy, self.done)
        except Exception as error:
            # A lost lock cancels Spark's jobs, whose errors look like any other.
            self.claimed.check()
            if not is_of_events(error):
                raise
            late = set(attempt.time_buckets) - batch.planned
            if not late & seen:
                # A late bucket that was added to the batch may be the one at fault.
                units = sorted(batch.planned | late)
                why = self._note(batch, units, error)
        if late & seen:
            return self._tried(self._without(batch, late & seen), seen)
        if len(units) == 1:
            return 0, 0
        seen.update(units)
        return self._in_halves(batch, units, why, seen)

    def _left_out(self, batch: Work, error: BucketsLost) -> Work:
        """A batch that leaves alone what events are gone of; their pieces stay open."""
        late = error.buckets.keys() - batch.planned
        if late:
            self.claimed.extend(late_pieces(batch, late))
        leave_out(self.claimed, self.done, error.buckets)
        kept = [one for one in batch.pieces if one.time_bucket not in error.buckets]
        return replace(
            batch,
            pieces=kept,
            done=batch.done - error.buckets.keys(),
            left_out=batch.left_out | error.buckets.keys(),
        )

    def _without(self, batch: Work, again: set[int]) -> Work:
        """A batch that does not reopen what was tried by itself: it would never be alone."""
        waits = f"{GAP_ERROR} what is late in it waits for the next run"
        self.claimed.finish_some(again, State.HELD, {}, waits)
        self.done.gaps |= dict.fromkeys(again, waits)
        return replace(batch, done=batch.done - again)

    def _in_halves(
        self, batch: Work, units: Sequence[int], why: str, seen: set[int]
    ) -> tuple[int, int]:
        before = len(self.done.failed), len(self.done.warnings)
        found = [self._tried(half, seen) for half in self._halves(batch, units)]
        if before == (len(self.done.failed), len(self.done.warnings)):
            # A check of several rows, such as unique, may concern more than one time bucket.
            what = f"warning: {len(units):,} buckets failed together, and none of them alone"
            self.done.warnings.append(f"{what}: {why}")
        return sum(rows for rows, _ in found), sum(size for _, size in found)

    def _halves(self, batch: Work, units: Sequence[int]) -> Iterator[Work]:
        """The older half, and when it is over the other one."""
        pieces = {piece.time_bucket: piece for piece in batch.pieces}
        whole = replace(
            batch,
            pieces=[pieces.get(unit, Piece(unit, Reason.LATE)) for unit in units],
            # It lacks the rows of late buckets.
        )
        middle = len(units) // 2
        older, newer = units[:middle], units[middle:]
        end = older[-1] + self.run.settings.bucket_size.milliseconds
        yield part(whole, older, {*newer, *self.done.failed}, self.done.gaps, end)
        yield part(whole, newer, set(self.done.failed), self.done.gaps, batch.batch_end)

    def _note(self, batch: Work, units: Sequence[int], error: Exception) -> str:
        """Say what failed, and of a single time bucket record it; returns the error in a line."""
        why = reason_of(error)
        name = batch.definition.name
        if len(units) > 1:
            self.run.say(f"{name}: {len(units):,} buckets fail, trying them in halves: {why}")
            return why
        if not isinstance(error, TidemarkError):
            # The trace is what a bug report needs; the report's one line is what everybody reads.
            traceback.print_exc(file=sys.stderr)
        self.run.say(f"{name}: {from_millis(units[0]):%Y-%m-%d %H:%M} fails: {why}")
        self.claimed.finish_some({units[0]}, State.FAILED, {}, why[:_ERROR_LENGTH])
        status = error.exit_status if isinstance(error, TidemarkError) else 1
        self.done.fail(units[0], why, status)
        return why


def leave_out(
    claimed: Claim, done: ProjectionOutcome, buckets: Mapping[int, HistoryPurged]
) -> None:
    """Record the pieces of time buckets that cannot be made again from what is there.

    Raises:
        LockLost: another run has taken a piece over.
    """
    by_error: dict[str, set[int]] = {}
    for bucket, error in buckets.items():
        done.leave_out(bucket, error)
        by_error.setdefault(str(error), set()).add(bucket)
    for why, those in by_error.items():
        claimed.finish_some(those, State.FAILED, {}, why[:_ERROR_LENGTH])


def is_of_events(error: Exception) -> bool:
    """Whether it can be the events that made a batch fail, so that a part of them may do."""
    if isinstance(error, TidemarkError):
        return type(error) in _FORESEEN
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return _JVMS.fullmatch(cause.getClass().getName()) is not None
    return isinstance(error, _SPARKS)


def require_done(work: Work, done: ProjectionOutcome) -> None:
    """Fail a projection of which pieces have failed, when all others are processed.

    Raises:
        TidemarkError: with the error of the oldest one, and how many there are.
    """
    if done.failed:
        number = len({*work.time_buckets, *done.failed, *done.counts})
        if number == 1:
            (what,) = done.failed.values()
        else:
            number_of = f"{counted(number, 'bucket')}{_beside_the_new(work, done)}"
            what = f"{len(done.failed):,} of {number_of}, {_first(done)}"
        raise together(what, done.statuses)


def _beside_the_new(work: Work, done: ProjectionOutcome) -> str:
    """Why there are more buckets than the window has."""
    earlier = sum(piece.reason in _EARLIER for piece in work.pieces)
    late = len((done.failed.keys() | done.counts.keys()) - set(work.time_buckets))
    parts = [f"{earlier:,} taken up from earlier runs"] if earlier else []
    parts += [f"{late:,} reopened by late events"] if late else []
    return f" ({', '.join(parts)})" if parts else ""


def _given_up(done: ProjectionOutcome) -> TidemarkError:
    what = f"{counted(len(done.failed), 'bucket')}, and what is left was not tried"
    return together(f"{what}, {_first(done)}", done.statuses)


def _first(done: ProjectionOutcome) -> str:
    bucket, why = min(done.failed.items())
    first = "" if len(done.failed) == 1 else "the first is "
    return f"{first}{from_millis(bucket):%Y-%m-%d %H:%M}: {why}"


def lines(name: str, done: ProjectionOutcome) -> list[str]:
    """The pieces that failed, for people."""
    shown = sorted(done.failed.items())[:_SHOWN]
    more = len(done.failed) - len(shown)
    return [
        *(f"{name}: {from_millis(bucket):%Y-%m-%d %H:%M} failed: {why}" for bucket, why in shown),
        *([f"{name}: {more:,} more failed"] if more else []),
    ]
