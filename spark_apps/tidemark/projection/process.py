"""One projection: its pieces from claim to ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from tidemark.application import Run
from tidemark.errors import TidemarkError
from tidemark.ledger import quarantine
from tidemark.ledger.claim import Claim, claim
from tidemark.ledger.pieces import State
from tidemark.projection import acceptance, analysis, intake, read, store, transform
from tidemark.projection.analysis import Checked
from tidemark.projection.definition import Definition, Mode
from tidemark.projection.intake import Policy
from tidemark.projection.plan import APPLICATION, NOT_VALIDATED, Work
from tidemark.window import from_millis, iso

COUNTS = ("events_read", "rows_written", "quarantined", *intake.COUNTS)


@dataclass
class Done:
    """What came of a projection.

    Attributes:
        buckets: how many time buckets are done.
        totals: of COUNTS.
        gaps: the error of each time bucket that is processed, but for events held back.
    """

    buckets: int = 0
    totals: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    gaps: Mapping[int, str] = field(default_factory=dict)


def process(run: Run, work: Work, checked: Checked | None, policy: Policy) -> Done:
    """Record the held pieces, do the others and those that turn out to be late.

    Args:
        run: the application's frame.
        work: the projection's plan.
        checked: its definition as Spark understands it; None if all of its pieces are held.
        policy: what to do about events that are missing.

    Raises:
        LockHeld: another run works on this projection.
        LockLost: our own lock ran out while we worked.
        HistoryPurged: events were deleted before they were consumed.
        WrongData: the policy is strict and there is a gap.
        TidemarkError: the result contradicts the rules of the projection's mode.
    """
    done = Done()
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
            done = _Processing(run, claimed, checked, work).run_all(policy)
    return done


class _Processing:
    """One projection over the time buckets that it has claimed."""

    def __init__(self, run: Run, claimed: Claim, checked: Checked, work: Work) -> None:
        self._run, self._claimed, self._checked, self._work = run, claimed, checked, work
        self._time_buckets: Sequence[int] = work.time_buckets
        self._now = datetime.now(UTC)
        self._subject = checked.definition.subject(run.settings.journal_keyspace)

    @property
    def _definition(self) -> Definition:
        return self._checked.definition

    def run_all(self, policy: Policy) -> Done:
        """Read, accept, decode, quarantine; then result, offsets, cursors, ledger."""
        self._say(f"reading the events of {len(self._time_buckets)} buckets")
        taken = intake.take(self._run, self._claimed, self._work, self._subject, policy)
        self._time_buckets = taken.time_buckets
        events = transform.distinct_events(taken.rows)
        decoded = transform.decode(events, self._checked.event, self._checked.decoders)
        decoded.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            counts = {
                row.time_bucket: {"events_read": row.events_read, "quarantined": row.quarantined}
                for row in transform.counts_by_bucket(decoded).collect()  # a row for each bucket
            }
            totals = {
                name: sum(each[name] for each in counts.values())
                for name in ("events_read", "quarantined")
            }
            if totals["quarantined"]:
                self._quarantine(decoded)
            totals["rows_written"] = self._write_result(decoded, counts)
            self._write_offsets(decoded, taken.reached)
        finally:
            decoded.unpersist()
            taken.release()
        for bucket, accepted in taken.counts.items():
            counts.setdefault(bucket, {}).update(accepted)
        for bucket, gap in taken.gaps.items():
            self._claimed.finish_some({bucket}, State.HELD, counts, gap)
        self._claimed.finish(State.DONE, counts)
        totals |= taken.totals
        done = len(self._time_buckets) - len(taken.gaps)
        return Done(done, {name: totals[name] for name in COUNTS}, taken.gaps)

    def _quarantine(self, decoded: DataFrame) -> None:
        self._claimed.check()
        quarantine.write(
            transform.unreadable(decoded),
            self._run.settings,
            source=read.source_table(self._definition, self._run.settings),
            application=f"{APPLICATION}/{self._definition.name}",
            run_id=self._run.run_id,
        )

    def _write_result(self, decoded: DataFrame, counts: dict[int, dict[str, int]]) -> int:
        """Store the result; adds rows_written to the counts of each bucket in mode bucket."""
        self._say(f"writing {self._definition.target}")
        result = analysis.apply(self._definition, transform.readable(decoded))
        if self._definition.mode is Mode.UPSERT:
            return self._upsert(result)
        rows_written = self._replace_buckets(result)
        for bucket in self._time_buckets:
            counts.setdefault(bucket, {})["rows_written"] = rows_written.get(bucket, 0)
        return sum(rows_written.values())

    def _replace_buckets(self, result: DataFrame) -> Mapping[int, int]:
        result.persist(StorageLevel.MEMORY_AND_DISK)
        rows_written = {
            row.time_bucket: row.rows
            for row in result.groupBy("time_bucket").agg(F.count(F.lit(1)).alias("rows")).collect()
        }
        self._require_own_buckets(rows_written)
        settings, control = self._run.settings, self._run.control
        self._claimed.check()
        write_time = store.next_write_time(control, settings, self._subject)
        if rows_written:
            store.write_bucket_rows(result, self._definition, write_time)
            self._claimed.check()
        store.delete_older_rows(control, self._definition, self._time_buckets, write_time)
        result.unpersist()
        return rows_written

    def _require_own_buckets(self, rows_written: Mapping[int | None, int]) -> None:
        foreign = sorted(
            "null" if bucket is None else iso(from_millis(bucket))
            for bucket in set(rows_written) - set(self._time_buckets)
        )
        if foreign:
            raise TidemarkError(
                f"the result has rows of time buckets that were not read: {', '.join(foreign[:5])}",
                where=str(self._definition.file),
                do="select the events' own time_bucket and group by it",
            )

    def _upsert(self, result: DataFrame) -> int:
        rows = transform.newest(result, self._definition.version)
        rows.persist(StorageLevel.MEMORY_AND_DISK)
        found = rows.agg(
            F.count(F.lit(1)).alias("rows"),
            F.countDistinct("persistence_id").alias("ids"),
            F.count("sequence_nr").alias("numbers"),
        ).first()
        if found is None or not found.rows == found.ids == found.numbers:
            raise TidemarkError(
                "the result has more than one row for an event, or a null in its key",
                where=str(self._definition.file),
                do="select the events' own persistence_id and sequence_nr, one row for each event",
            )
        if found.rows:
            self._claimed.check()
            store.write_newest(rows, self._definition)
        rows.unpersist()
        return int(found.rows)

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
