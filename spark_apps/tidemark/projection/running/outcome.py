"""What came of a projection in a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidemark.errors import HistoryPurged
from tidemark.projection.acceptance import accept
from tidemark.projection.acceptance.accept import AcceptedEvents
from tidemark.projection.transformation.result_checks import Finding

COUNTS = ("events_read", "rows_written", "quarantined", "check_warnings", *accept.COUNTS)


@dataclass
class ProjectionOutcome:
    """What came of a projection so far, one batch after the other.

    Attributes:
        counts: of each time bucket when it was last processed.
        gaps: the error of each that is processed, but for events held back.
        failed: the error of each that could not be processed, while others were.
        lost: those of `failed` whose events are no longer there.
        statuses: the exit statuses of what failed.
        totals: of COUNTS.
        beyond: late events behind a gap, in time buckets that were not processed.
        warnings: for people, the checks that fail but do not stop it.
    """

    counts: dict[int, Mapping[str, int]] = field(default_factory=dict)
    gaps: dict[int, str] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    statuses: set[int] = field(default_factory=set)
    totals: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(COUNTS, 0)))
    beyond: int = 0
    warnings: list[str] = field(default_factory=list)

    @property
    def buckets(self) -> int:
        """How many time buckets are done."""
        return len(self.counts) - len(self.gaps)

    def fail(self, bucket: int, why: str, status: int) -> None:
        """A time bucket that could not be processed, or not again because a late event is in it."""
        self.failed[bucket] = why
        self.statuses.add(status)
        self.counts.pop(bucket, None)
        self.gaps.pop(bucket, None)

    def leave_out(self, bucket: int, error: HistoryPurged) -> None:
        """A time bucket that is left as it is, since events of it are gone."""
        self.fail(bucket, str(error), error.exit_status)
        self.lost.add(bucket)

    def add(
        self,
        counts: Mapping[int, Mapping[str, int]],
        totals: Mapping[str, int],
        taken: AcceptedEvents,
        warnings: Sequence[Finding],
    ) -> None:
        """The end of a batch. What an earlier one held back and this one accepts is not rejected.

        Args:
            counts: of each time bucket that it has processed.
            totals: of COUNTS, without what was not processed.
            taken: what it took in.
            warnings: the checks that warn.
        """
        self.totals.update(totals)
        for bucket, now in counts.items():
            for name in accept.REJECTED:
                self.totals[name] -= self.counts.get(bucket, {}).get(name, 0)
            self.counts[bucket] = now
            self.gaps.pop(bucket, None)
        self.gaps |= taken.gaps
        # Each batch sees them anew.
        more = max(taken.beyond - self.beyond, 0)
        self.totals[accept.REJECTED[-1]] += more
        self.beyond += more
        self.totals["check_warnings"] += sum(each.failing for each in warnings)
        self.warnings += [*taken.warnings, *(f"warning: {each}" for each in warnings)]
