"""The outcomes of a run's batches and projections."""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tidemark import termination
from tidemark.context import Outcome, PieceCounts, RunState
from tidemark.errors import HistoryPurged, TidemarkError, all_of, outage_of, root_cause
from tidemark.partitioning.keys import BucketSize
from tidemark.project.acceptance import accept
from tidemark.project.transformation.filled_fields import FilledFields
from tidemark.project.transformation.result_checks import Finding
from tidemark.window import Window

COUNTS = (
    "events_read",
    "rows_written",
    "rows_deleted",
    "quarantined",
    "check_warnings",
    *accept.COUNTS,
)


@dataclass(frozen=True)
class BatchSize:
    """The rows of the source in a batch, and the bytes of their payloads."""

    rows: int = 0
    payload_bytes: int = 0


@dataclass(frozen=True)
class BatchOutcome:
    """The outcome of one batch.

    Attributes:
        counts: COUNTS of each processed time bucket.
        totals: totals of COUNTS, for processed time buckets only.
        gaps: the error of each processed time bucket in which events are held back.
        beyond: number of late events after a gap, in time buckets that were not processed.
        failing_checks: the checks that warn.
        size: the size of the rows read.
        fields: the fields that the events fill.
    """

    counts: Mapping[int, Mapping[str, int]]
    totals: Mapping[str, int]
    gaps: Mapping[int, str]
    beyond: int
    warnings: Sequence[str]
    failing_checks: Sequence[Finding]
    size: BatchSize
    fields: FilledFields = field(default_factory=FilledFields)


@dataclass
class ProjectionOutcome:
    """The outcome of a projection so far, filled batch by batch.

    Attributes:
        counts: COUNTS of each time bucket when it was last processed.
        gaps: the error of each processed time bucket in which events are held back.
        failed: the error of each time bucket that could not be processed.
        lost: the time buckets in `failed` that have lost events.
        statuses: the exit statuses of the failures.
        totals: totals of COUNTS.
        beyond: number of late events after a gap, in time buckets that were not processed.
        warnings: warnings of batches, and failing checks that do not stop the projection.
        fields: the fields that the events fill.
    """

    counts: dict[int, Mapping[str, int]] = field(default_factory=dict)
    gaps: dict[int, str] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    statuses: set[int] = field(default_factory=set)
    totals: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(COUNTS, 0)))
    beyond: int = 0
    warnings: list[str] = field(default_factory=list)
    fields: FilledFields = field(default_factory=FilledFields)

    @property
    def buckets(self) -> int:
        """The number of done time buckets."""
        return len(self.counts) - len(self.gaps)

    def fail(self, bucket: int, why: str, status: int) -> None:
        """Add a time bucket that could not be processed, or not with its late events."""
        self.failed[bucket] = why
        self.statuses.add(status)
        self.counts.pop(bucket, None)
        self.gaps.pop(bucket, None)

    def leave_out(self, bucket: int, error: HistoryPurged) -> None:
        """Add a time bucket that stays unchanged because it has lost events."""
        self.fail(bucket, str(error), error.exit_status)
        self.lost.add(bucket)

    def add(self, batch: BatchOutcome) -> None:
        """Add a batch; events that it accepts no longer count as rejected by earlier batches."""
        self.totals.update(batch.totals)
        for bucket, counts in batch.counts.items():
            for name in accept.REJECTED:
                self.totals[name] -= self.counts.get(bucket, {}).get(name, 0)
            self.counts[bucket] = counts
            self.gaps.pop(bucket, None)
        self.gaps |= batch.gaps
        # Each batch counts the same events again.
        new = max(batch.beyond - self.beyond, 0)
        self.totals[accept.REJECTED[-1]] += new
        self.beyond += new
        self.totals["check_warnings"] += sum(check.failing for check in batch.failing_checks)
        self.fields.add(batch.fields)
        # Each batch may see the same persistence ids.
        self.warnings += [line for line in batch.warnings if line not in self.warnings]
        self.warnings += [f"warning: {check}" for check in batch.failing_checks]


@dataclass
class RunTally:
    """The results of a run's projections so far.

    Attributes:
        pieces: numbers of pieces by outcome.
        counts: totals of COUNTS.
        lines: lines for reports.
        done: the done time buckets.
        moved: the span of done time buckets by projection name.
        read: tables that were read, `keyspace.table`.
        written: tables and directories that were written.
        swapped: number of blue/green versions that became live.
        rollups: number of rollups made.
    """

    pieces: PieceCounts = field(default_factory=PieceCounts)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    lines: list[str] = field(default_factory=list)
    errors: list[TidemarkError] = field(default_factory=list)
    done: set[int] = field(default_factory=set)
    moved: dict[str, dict[str, str]] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    swapped: int = 0
    rollups: int = 0

    def outcome(self, size: BucketSize) -> Outcome:
        """Return the outcome of the run."""
        has_done = self.pieces.done or self.swapped or self.rollups
        state = RunState.DONE if has_done else RunState.NOTHING
        if self.errors:
            state = RunState.FAILED
        error = all_of(self.errors)
        hull = Window.hull(self.done, size)
        tables = {"read": sorted(self.read), "written": sorted(self.written)}
        details = {"projections": self.moved, "tables": tables}
        return Outcome(state, self.pieces, self.counts, self.lines, error, details, hull)


def failure_of(work: Callable[[], None]) -> TidemarkError | None:
    """Do the work of a projection; return the error that it fails with, or None."""
    try:
        work()
    except TidemarkError as error:
        termination.check()
        return error
    except Exception as error:
        termination.check()
        if (outage := outage_of(error)) is not None:
            return outage
        # Bug reports need the trace; the report has one line.
        traceback.print_exc(file=sys.stderr)
        return TidemarkError(root_cause(error))
    return None
