"""The pipeline of a projection: the steps of a batch in their order."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.context import RunContext
from tidemark.errors import RowsRefused
from tidemark.ledger.claim import Claim
from tidemark.ledger.piece import State
from tidemark.project.acceptance import rule
from tidemark.project.acceptance.accept import Acceptance, AcceptedEvents
from tidemark.project.analysis import analyze
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.definition.model import Definition, Mode
from tidemark.project.offset_store import bucket_origin, missing_numbers
from tidemark.project.offset_store.bucket_origin import BucketOrigin
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning.batch import Batch
from tidemark.project.running.outcome import BatchOutcome, BatchSize
from tidemark.project.running.reconcile_guard import ReconcileGuard
from tidemark.project.running.result_writers import writer_of
from tidemark.project.transformation import failing_events, transform
from tidemark.project.transformation.filled_fields import FilledFields
from tidemark.project.transformation.result import BatchEvents, Result
from tidemark.project.writing import dead_letters
from tidemark.project.writing import write as modes
from tidemark.project.writing.mode import Counted, ResultWriter, WriteRequest
from tidemark.spark.read_once import kept_once
from tidemark.spark.row_errors import is_of_rows
from tidemark.text import counted


@dataclass
class _Counts:
    """The counts of a batch by time bucket and in total."""

    by_bucket: dict[int, dict[str, int]]
    size: BatchSize
    quarantined: int
    fields: FilledFields

    @classmethod
    def of(cls, decoded: DataFrame) -> Self:
        """Count the events in the result of `transform.decode`."""
        rows = transform.counts_by_bucket(decoded).collect()  # a row for each bucket
        by_bucket = {
            row.time_bucket: {"events_read": row.events_read, "quarantined": row.quarantined}
            for row in rows
        }
        events, size = sum(row.events_read for row in rows), sum(row.bytes_read for row in rows)
        quarantined = sum(row.quarantined for row in rows)
        return cls(by_bucket, BatchSize(events, size), quarantined, FilledFields.of(rows))

    def add_quarantined(self, unprocessed: DataFrame) -> None:
        """Count the events for which the user's code raised an error."""
        for row in unprocessed.groupBy("time_bucket").count().collect():
            self.quarantined += row["count"]
            # Events of a history lie in time buckets that this run does not process.
            if row.time_bucket in self.by_bucket:
                self.by_bucket[row.time_bucket]["quarantined"] += row["count"]

    def add(self, time_buckets: list[int], counts: Mapping[int, Mapping[str, int]]) -> None:
        """Add counts by name to some time buckets."""
        for bucket in time_buckets:
            self.by_bucket.setdefault(bucket, {}).update(counts.get(bucket, {}))


@dataclass(frozen=True)
class Pipeline:
    """The steps of one projection for the batches that a run has claimed.

    The claim is checked before each kind of write.
    """

    run: RunContext
    claimed: Claim
    analyzed: AnalyzedDefinition
    acceptance: Acceptance
    """Its store is fenced, see `OffsetStore.fenced`."""

    def run_batch(self, batch: Batch, reopened: set[int]) -> BatchOutcome:
        """Process a batch from its first read to the ledger.

        Data is written before offsets, and offsets before the ledger: after a crash between two
        writes, the next run writes the same rows again. Done time buckets that late events reopen
        are added to `reopened`, also if the batch fails later.
        """
        self._say(f"reading the events of {counted(len(batch.pieces), 'bucket')}")
        guard = ReconcileGuard.begin(self.run, self._definition)
        with ExitStack() as in_memory:
            accepted = self.acceptance.accept(batch, self.claimed, in_memory)
            reopened.update(set(accepted.time_buckets) - batch.planned)
            decoded = self._decode(accepted, in_memory)
            counts = _Counts.of(decoded)
            if counts.quarantined:
                self._quarantine(transform.unreadable(decoded), counts)
            result = self._transform(decoded, accepted, counts, in_memory)
            guard.require_undisturbed()
            writer = in_memory.enter_context(writer_of(self._store))
            result, write_counts = self._store_result(result, decoded, accepted, counts, writer)
            self._release(decoded, result, accepted)
            self._write_offsets(decoded, accepted, writer)
            self._note_origins(accepted, counts, is_sure=True)
            self._write_missing(batch, accepted)
        self._finish(accepted, counts)
        return _outcome(accepted, counts, write_counts)

    @property
    def _definition(self) -> Definition:
        return self.analyzed.definition

    @property
    def _store(self) -> OffsetStore:
        return self.acceptance.store

    def _decode(self, accepted: AcceptedEvents, in_memory: ExitStack) -> DataFrame:
        distinct = transform.single_events if accepted.is_single else transform.distinct_events
        decoded = kept_once(
            transform.decode(distinct(accepted.rows), self.analyzed.event, self.analyzed.decoders)
        )
        in_memory.callback(decoded.unpersist)
        return decoded

    def _transform(
        self, decoded: DataFrame, accepted: AcceptedEvents, counts: _Counts, in_memory: ExitStack
    ) -> Result:
        """Make the result; quarantine and count events for which the user's code raises."""
        result = modes.MODES[self._definition.mode].transform(
            BatchEvents(
                self.run,
                self._store,
                self.analyzed,
                decoded,
                accepted,
                self.acceptance.policy.accept_purged,
            )
        )
        for frame in result.cached:
            in_memory.callback(frame.unpersist)
        if result.unprocessed is not None:
            counts.add_quarantined(result.unprocessed)
            if not result.unprocessed.isEmpty():
                self._quarantine(result.unprocessed, counts)
        return result

    def _quarantine(self, letters: DataFrame, counts: _Counts) -> None:
        dead_letters.quarantine_events(letters, self.run, self.claimed, self._definition)
        dead_letters.require_allowed(letters, counts.by_bucket, self._definition)

    def _store_result(
        self,
        result: Result,
        decoded: DataFrame,
        accepted: AcceptedEvents,
        counts: _Counts,
        writer: ResultWriter,
    ) -> tuple[Result, Counted]:
        """Store the result; if single events make this fail, leave them out, as `on-error` says.

        All rows are checked before the first is written. PostgreSQL may reject a row of an earlier
        event once that of a later event is left out, so this may need several attempts.
        """
        is_searched = False
        while True:
            try:
                return result, self._write(result, accepted, counts, writer)
            except RowsRefused as refused:
                failures = self._refused(refused, decoded)
            except Exception as error:
                self.claimed.check()
                is_fold = self._definition.mode is Mode.FOLD
                if is_searched or is_fold or not is_of_rows(error):
                    raise
                self._say("looking for the events that fail")
                causes = failing_events.find(self.analyzed, transform.readable(decoded))
                if not causes:
                    raise
                is_searched = True
                failures = failing_events.failures(causes, decoded)
            result, decoded = self._without(failures, result, decoded, accepted, counts)

    def _refused(self, refused: RowsRefused, decoded: DataFrame) -> DataFrame:
        """Return the events whose rows were rejected; of a state all events of this batch."""
        failures = failing_events.failures(refused.causes, decoded)
        if self._definition.mode is not Mode.FOLD:
            return failures
        events = decoded.select("persistence_id", "sequence_nr")
        return events.join(failures.drop("sequence_nr"), on="persistence_id")

    def _without(
        self,
        failures: DataFrame,
        result: Result,
        decoded: DataFrame,
        accepted: AcceptedEvents,
        counts: _Counts,
    ) -> tuple[Result, DataFrame]:
        """Quarantine events, and return the result of the others, and the others."""
        events = transform.distinct_events(accepted.rows)
        letters = transform.unprocessed(events, failures).localCheckpoint()
        counts.add_quarantined(letters)
        self._quarantine(letters, counts)
        key = ["persistence_id", "sequence_nr"]
        others = decoded.join(failures, on=key, how="left_anti")
        if self._definition.mode is Mode.FOLD:
            # The former states stay; events of later batches continue with them.
            rows = result.rows.join(failures, on="persistence_id", how="left_anti")
            processed = result.processed
            if processed is None:
                processed = transform.processed(decoded)
            processed = processed.join(failures, on=key, how="left_anti")
            return Result(rows, letters, processed), others
        rows = analyze.apply(self.analyzed, transform.readable(others))
        return Result(rows, letters, transform.processed(others)), others

    def _write(
        self, result: Result, accepted: AcceptedEvents, counts: _Counts, writer: ResultWriter
    ) -> Counted:
        """Store the result, and count rows_written by time bucket if known."""
        self._say(f"writing {self._definition.target}")
        request = WriteRequest(self.run, self.claimed, self._store, accepted.result_buckets)
        write_counts = modes.write(
            request, result.rows, partial(self._note_origins, accepted, counts), writer
        )
        if write_counts.by_bucket is not None:
            rows = {
                bucket: write_counts.by_bucket.get(bucket, 0) for bucket in accepted.result_buckets
            }
            rows_written = {bucket: {"rows_written": count} for bucket, count in rows.items()}
            counts.add(accepted.result_buckets, rows_written)
        return write_counts

    def _note_origins(
        self, accepted: AcceptedEvents, counts: _Counts, *, is_sure: bool = False
    ) -> None:
        """Write the origins before the result; with `is_sure`, again after the offsets."""
        if not self._definition.mode.replaces_buckets:
            return
        self.claimed.check()
        origins = {}
        for bucket in accepted.result_buckets:
            read = counts.by_bucket.get(bucket, {}).get("events_read", 0)
            new = accepted.counts.get(bucket, {}).get("accepted", 0)
            origins[bucket] = (
                BucketOrigin(read, 0, self._definition.fingerprint)
                if is_sure
                else BucketOrigin(read, new, "")
            )
        bucket_origin.note(self._store, origins)

    def _write_offsets(
        self, decoded: DataFrame, accepted: AcceptedEvents, writer: ResultWriter
    ) -> None:
        self._say("writing the offsets")
        now = clock.now()
        newest = {row.slice: row.epoch_ms for row in transform.newest_by_slice(decoded).collect()}
        self.claimed.check()
        writer.write_offsets(rule.offset_rows(accepted.reached), now)
        self.claimed.check()
        self._store.advance_cursors(newest, now)

    def _first_attempted(self) -> set[int]:
        """Return the time buckets that no earlier run has started."""
        return {piece.time_bucket for piece in self.claimed.pieces if piece.attempt == 1}

    def _release(self, decoded: DataFrame, result: Result, accepted: AcceptedEvents) -> None:
        """Release the events from quarantine that could be processed now.

        Call it after the result is written, so that a crash here is repaired by the next run, and
        before the offsets are, since consumed events may not be read again.
        """
        definition = self._definition
        # Another version may have quarantined events that are new to a blue/green version.
        new = set() if definition.is_blue_green else self._first_attempted()
        if result.processed is None and new.issuperset(accepted.result_buckets):
            return
        processed = transform.processed(decoded) if result.processed is None else result.processed
        if new:
            processed = processed.where(~F.col("time_bucket").isin(*new))
        dead_letters.release_processed(processed, self.run, self.claimed, definition)

    def _write_missing(self, batch: Batch, accepted: AcceptedEvents) -> None:
        new = self._first_attempted()
        former = [bucket for bucket in accepted.time_buckets if bucket not in new]
        self.claimed.check()
        missing_numbers.replace(self._store, batch.slices, former, accepted.missing)

    def _finish(self, accepted: AcceptedEvents, counts: _Counts) -> None:
        """Write the ledger, after all other writes."""
        counts.add([*accepted.time_buckets], accepted.counts)
        for bucket, gap in accepted.gaps.items():
            self.claimed.finish_some({bucket}, State.HELD, counts.by_bucket, gap)
        complete = set(accepted.time_buckets) - set(accepted.gaps)
        self.claimed.finish_some(complete, State.DONE, counts.by_bucket)

    def _say(self, text: str) -> None:
        self.run.say(f"{self._definition.name}: {text}")


def _outcome(accepted: AcceptedEvents, counts: _Counts, write_counts: Counted) -> BatchOutcome:
    totals = {
        "events_read": counts.size.rows,
        "quarantined": counts.quarantined,
        **accepted.totals,
        "rows_written": write_counts.rows,
        "rows_deleted": write_counts.deleted,
    }
    return BatchOutcome(
        counts.by_bucket,
        totals,
        accepted.gaps,
        accepted.beyond,
        accepted.warnings,
        write_counts.warnings,
        counts.size,
        counts.fields,
    )
