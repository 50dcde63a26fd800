"""One projection: its pieces from claim to ledger."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

from tidemark.application import Run
from tidemark.ledger import quarantine
from tidemark.ledger.claim import Claim, claim
from tidemark.ledger.pieces import State
from tidemark.projection import analysis, read, store, transform
from tidemark.projection.analysis import Checked
from tidemark.projection.definition import Definition
from tidemark.projection.modes import registry
from tidemark.projection.modes.base import Batch
from tidemark.projection.plan import APPLICATION, NOT_VALIDATED, Work

COUNTS = ("events_read", "rows_written", "quarantined")


def process(run: Run, work: Work, checked: Checked | None) -> dict[str, int]:
    """Record the held pieces, do the others, and return the totals of COUNTS.

    Args:
        run: the application's frame.
        work: the projection's plan.
        checked: its definition as Spark understands it; None if all of its pieces are held.

    Raises:
        LockHeld: another run works on this projection.
        LockLost: our own lock ran out while we worked.
        TidemarkError: the result contradicts the rules of the projection's mode.
    """
    totals = dict.fromkeys(COUNTS, 0)
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
            processing = _Processing(run, claimed, checked, work.time_buckets)
            totals |= processing.run_all()
    return totals


class _Processing:
    """One projection over the time buckets that it has claimed."""

    def __init__(
        self, run: Run, claimed: Claim, checked: Checked, time_buckets: Sequence[int]
    ) -> None:
        self._run, self._claimed, self._checked = run, claimed, checked
        self._time_buckets = time_buckets
        self._now = datetime.now(UTC)
        self._subject = checked.definition.subject(run.settings.journal_keyspace)

    @property
    def _definition(self) -> Definition:
        return self._checked.definition

    def run_all(self) -> dict[str, int]:
        """Read, decode, quarantine; then result, offsets, cursors, ledger."""
        self._say(f"reading the events of {len(self._time_buckets)} buckets")
        rows = read.source_rows(
            self._run.spark, self._run.settings, self._definition, self._time_buckets
        )
        events = transform.distinct_events(rows)
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
            self._write_offsets(decoded)
        finally:
            decoded.unpersist()
        self._claimed.finish(State.DONE, counts)
        return {name: totals[name] for name in COUNTS}

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
        """Store the result; adds rows_written to the counts of each bucket if they are known."""
        self._say(f"writing {self._definition.target}")
        result = analysis.apply(self._definition, transform.readable(decoded))
        batch = Batch(self._run, self._claimed, self._definition, self._time_buckets)
        counted = registry.write(batch, result)
        if counted.by_bucket is not None:
            for bucket in self._time_buckets:
                counts.setdefault(bucket, {})["rows_written"] = counted.by_bucket.get(bucket, 0)
        return counted.rows

    def _write_offsets(self, decoded: DataFrame) -> None:
        self._say("writing the offsets")
        run, settings = self._run, self._run.settings
        newest = {row.slice: row.epoch_ms for row in transform.newest_by_slice(decoded).collect()}
        if newest:
            self._claimed.check()
            stored = store.stored_offsets(run.spark, settings, self._subject)
            rows = transform.offset_rows(decoded, stored)
            store.write_offsets(rows, settings, self._subject, self._now)
        self._claimed.check()
        store.write_cursors(run.control, settings, self._subject, newest, self._now)

    def _say(self, text: str) -> None:
        self._run.say(f"{self._definition.name}: {text}")
