"""One projection: its pieces from claim to ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

from tidemark.application import Run
from tidemark.ledger import quarantine
from tidemark.ledger.claim import Claim, claim
from tidemark.ledger.pieces import State
from tidemark.projection import acceptance, analysis, intake, read, store, transform
from tidemark.projection.analysis import Checked
from tidemark.projection.batches import Batches
from tidemark.projection.checking import Finding
from tidemark.projection.definition import Definition
from tidemark.projection.intake import Intake, Policy
from tidemark.projection.modes import registry
from tidemark.projection.modes.base import Batch, Counted
from tidemark.projection.plan import APPLICATION, NOT_VALIDATED, Work

COUNTS = ("events_read", "rows_written", "quarantined", "check_warnings", *intake.COUNTS)


@dataclass
class Done:
    """What came of a projection so far, one batch after the other.

    Attributes:
        counts: of each time bucket when it was last processed.
        gaps: the error of each that is processed, but for events held back.
        totals: of COUNTS.
        beyond: late events behind a gap, in time buckets that were not processed.
        warnings: for people, the checks that fail but do not stop it.
    """

    counts: dict[int, Mapping[str, int]] = field(default_factory=dict)
    gaps: dict[int, str] = field(default_factory=dict)
    totals: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(COUNTS, 0)))
    beyond: int = 0
    warnings: list[str] = field(default_factory=list)

    @property
    def buckets(self) -> int:
        """How many time buckets are done."""
        return len(self.counts) - len(self.gaps)

    def add(
        self,
        counts: Mapping[int, Mapping[str, int]],
        totals: Mapping[str, int],
        taken: Intake,
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
            for name in intake.REJECTED:
                self.totals[name] -= self.counts.get(bucket, {}).get(name, 0)
            self.counts[bucket] = now
            self.gaps.pop(bucket, None)
        self.gaps |= taken.gaps
        # Each batch sees them anew.
        more = max(taken.beyond - self.beyond, 0)
        self.totals[intake.REJECTED[-1]] += more
        self.beyond += more
        self.totals["check_warnings"] += sum(each.failing for each in warnings)
        self.warnings += [f"warning: {each}" for each in warnings]


def process(
    run: Run, work: Work, checked: Checked | None, policy: Policy, done: Done | None = None
) -> Done:
    """Record the held pieces, do the others and those that turn out to be late, batch by batch.

    Args:
        run: the application's frame.
        work: the projection's plan.
        checked: its definition as Spark understands it; None if all of its pieces are held.
        policy: what to do about events that are missing. If it is strict all is one batch:
            nothing is written before the last gap is known.
        done: what is returned, filled batch by batch, so that it is known if a later one fails.

    Raises:
        LockHeld: another run works on this projection.
        LockLost: our own lock ran out while we worked.
        HistoryPurged: events were deleted before they were consumed.
        WrongData: the policy is strict and there is a gap.
        WrongData: a blocking check fails.
        TidemarkError: the result contradicts the rules of the projection's mode.
    """
    done = done if done is not None else Done()
    with claim(
        run.control,
        run.settings,
        work.ledger,
        work.pieces,
        resource=f"{APPLICATION}/{work.definition.subject(run.settings.journal_keyspace)}",
        by_day=False,
        owner=run.owner,
        run_id=run.run_id,
        on_lost=run.stop_jobs,
    ) as claimed:
        if work.held:
            claimed.finish_some(set(work.held), State.HELD, {}, NOT_VALIDATED)
        if checked is not None:
            batches = Batches(run, work, whole=policy.strict)
            for batch in batches.each(unsettled=done.gaps):
                read_rows, size = _Processing(run, claimed, checked, batch).run_all(policy, done)
                batches.measured(read_rows, size)
    return done


class _Processing:
    """One projection over one batch of the time buckets that it has claimed."""

    def __init__(self, run: Run, claimed: Claim, checked: Checked, work: Work) -> None:
        self._run, self._claimed, self._checked, self._work = run, claimed, checked, work
        self._time_buckets: Sequence[int] = work.time_buckets
        self._now = datetime.now(UTC)
        self._subject = checked.definition.subject(run.settings.journal_keyspace)

    @property
    def _definition(self) -> Definition:
        return self._checked.definition

    def run_all(self, policy: Policy, done: Done) -> tuple[int, int]:
        """Read, accept, decode, quarantine; then result, offsets, cursors, ledger.

        Returns how many events were read, and the bytes of their payloads.
        """
        self._say(f"reading the events of {len(self._time_buckets)} buckets")
        taken = intake.take(self._run, self._claimed, self._work, self._subject, policy)
        self._time_buckets = taken.time_buckets
        events = transform.distinct_events(taken.rows)
        decoded = transform.decode(events, self._checked.event, self._checked.decoders)
        decoded.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            by_bucket = transform.counts_by_bucket(decoded).collect()  # a row for each bucket
            counts: dict[int, dict[str, int]] = {
                row.time_bucket: {"events_read": row.events_read, "quarantined": row.quarantined}
                for row in by_bucket
            }
            totals = {
                name: sum(each[name] for each in counts.values())
                for name in ("events_read", "quarantined")
            }
            if totals["quarantined"]:
                self._quarantine(decoded)
            counted = self._write_result(decoded, counts)
            self._write_offsets(decoded, taken.reached)
        finally:
            decoded.unpersist()
            taken.release()
        for bucket in self._time_buckets:
            counts.setdefault(bucket, {}).update(taken.counts.get(bucket, {}))
        for bucket, gap in taken.gaps.items():
            self._claimed.finish_some({bucket}, State.HELD, counts, gap)
        self._claimed.finish_some(set(self._time_buckets) - set(taken.gaps), State.DONE, counts)
        totals |= {**taken.totals, "rows_written": counted.rows}
        done.add(counts, totals, taken, counted.warnings)
        return totals["events_read"], sum(row.bytes_read for row in by_bucket)

    def _quarantine(self, decoded: DataFrame) -> None:
        self._claimed.check()
        quarantine.write(
            transform.unreadable(decoded),
            self._run.settings,
            source=read.source_table(self._definition, self._run.settings),
            application=f"{APPLICATION}/{self._definition.name}",
            run_id=self._run.run_id,
        )

    def _write_result(self, decoded: DataFrame, counts: dict[int, dict[str, int]]) -> Counted:
        """Store the result; adds rows_written to the counts of each bucket if they are known."""
        self._say(f"writing {self._definition.target}")
        result = analysis.apply(self._definition, transform.readable(decoded))
        batch = Batch(self._run, self._claimed, self._definition, self._time_buckets)
        counted = registry.write(batch, result)
        if counted.by_bucket is not None:
            for bucket in self._time_buckets:
                counts.setdefault(bucket, {})["rows_written"] = counted.by_bucket.get(bucket, 0)
        return counted

    def _write_offsets(self, decoded: DataFrame, reached: DataFrame) -> None:
        self._say("writing the offsets")
        run, settings = self._run, self._run.settings
        newest = {row.slice: row.epoch_ms for row in transform.newest_by_slice(decoded).collect()}
        self._claimed.check()
        store.write_offsets(acceptance.offset_rows(reached), settings, self._subject, self._now)
        self._claimed.check()
        store.write_cursors(run.control, settings, self._subject, newest, self._now)

    def _say(self, text: str) -> None:
        self._run.say(f"{self._definition.name}: {text}")
