"""How the projections of a run ended, and how each of their batches did."""

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
    """What a batch held: rows of the source, and bytes of their payloads."""

    rows: int = 0
    payload_bytes: int = 0


@dataclass(frozen=True)
class BatchOutcome:
    """How one batch ended.

    Attributes:
        counts: of COUNTS, of each time bucket that was processed.
        totals: of COUNTS, without what was not processed.
        gaps: the error of each time bucket that is processed, but for events held back.
        beyond: late events behind a gap, in time buckets that were not processed.
        warnings: for people.
        failing_checks: the checks that warn.
        size: what was read.
        fields: which fields its events have.
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
    """How a projection ended so far, filled one batch after the other.

    Attributes:
        counts: of each time bucket when it was last processed.
        gaps: the error of each that is processed, but for events held back.
        failed: the error of each that could not be processed, while others were.
        lost: the time buckets in `failed` whose events are gone.
        statuses: the exit statuses of what failed.
        totals: of COUNTS.
        beyond: late events behind a gap, in time buckets that were not processed.
        warnings: for people, the checks that fail but do not stop it.
        fields: which fields the events have.
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
        """How many time buckets are done."""
        return len(self.counts) - len(self.gaps)

    def fail(self, bucket: int, why: str, status: int) -> None:
        """Note a time bucket that could not be processed, or not with the late events in it."""
        self.failed[bucket] = why
        self.statuses.add(status)
        self.counts.pop(bucket, None)
        self.gaps.pop(bucket, None)

    def leave_out(self, bucket: int, error: HistoryPurged) -> None:
        """Note a time bucket that is left as it is, since events of it are gone."""
        self.fail(bucket, str(error), error.exit_status)
        self.lost.add(bucket)

    def add(self, batch: BatchOutcome) -> None:
        """Add a batch. What an earlier one held back and this one accepts is not rejected."""
        self.totals.update(batch.totals)
        for bucket, now in batch.counts.items():
            for name in accept.REJECTED:
                self.totals[name] -= self.counts.get(bucket, {}).get(name, 0)
            self.counts[bucket] = now
            self.gaps.pop(bucket, None)
        self.gaps |= batch.gaps
        # Each batch sees them anew.
        more = max(batch.beyond - self.beyond, 0)
        self.totals[accept.REJECTED[-1]] += more
        self.beyond += more
        self.totals["check_warnings"] += sum(check.failing for check in batch.failing_checks)
        self.fields.add(batch.fields)
        # Each batch may see the same persistence ids.
        self.warnings += [line for line in batch.warnings if line not in self.warnings]
        self.warnings += [f"warning: {check}" for check in batch.failing_checks]


@dataclass
class RunTally:
    """What the projections of a run did, one after the other.

    Attributes:
        pieces: how many, by how they ended.
        counts: of COUNTS.
        lines: for reports.
        errors: of what failed.
        done: the time buckets that are done.
        moved: the span of time buckets that each projection has done, by its name.
        read: the tables that were read, `keyspace.table`.
        written: those that were written, and directories.
        swapped: how many blue/green versions became the live ones.
        rollups: how many were made.
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
        """Return it as the outcome of the run."""
        is_done = self.pieces.done or self.swapped or self.rollups
        state = RunState.DONE if is_done else RunState.NOTHING
        if self.errors:
            state = RunState.FAILED
        error = all_of(self.errors)
        hull = Window.hull(self.done, size)
        tables = {"read": sorted(self.read), "written": sorted(self.written)}
        details = {"projections": self.moved, "tables": tables}
        return Outcome(state, self.pieces, self.counts, self.lines, error, details, hull)


def failure_of(work: Callable[[], None]) -> TidemarkError | None:
    """Return the error that a projection fails with; None if it does not fail."""
    try:
        work()
    except TidemarkError as error:
        termination.check()
        return error
    except Exception as error:
        termination.check()
        if (outage := outage_of(error)) is not None:
            return outage
        # The trace is what a bug report needs; the report's one line is what everybody reads.
        traceback.print_exc(file=sys.stderr)
        return TidemarkError(root_cause(error))
    return None
