"""One projection: its pieces from claim to ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

from tidemark import clock
from tidemark.context import RunContext
from tidemark.ledger.claim import Claim, claim
from tidemark.ledger.pieces import State
from tidemark.projection.acceptance import accept, rule
from tidemark.projection.acceptance.accept import AcceptedEvents, Policy
from tidemark.projection.acceptance.whole_buckets import BucketsLost
from tidemark.projection.analysis import analyze
from tidemark.projection.analysis.analyze import AnalyzedDefinition
from tidemark.projection.definition.model import Definition, Mode
from tidemark.projection.offset_store import consumption, made_from, missing_numbers
from tidemark.projection.offset_store.made_from import Made
from tidemark.projection.planning.limit import postpone
from tidemark.projection.planning.lock import resource_of
from tidemark.projection.planning.plan import Work
from tidemark.projection.running.batches import Batches
from tidemark.projection.running.bisection import Bisection, leave_out, require_done
from tidemark.projection.running.outcome import ProjectionOutcome
from tidemark.projection.running.undisturbed import Watch
from tidemark.projection.transformation import fold as folding
from tidemark.projection.transformation import transform
from tidemark.projection.writing import dead_letters
from tidemark.projection.writing import write as modes
from tidemark.projection.writing.mode import Counted, WriteRequest
from tidemark.text import counted


def process(
    run: RunContext,
    work: Work,
    checked: AnalyzedDefinition | None,
    policy: Policy,
    done: ProjectionOutcome,
) -> None:
    """Record the held pieces, do the others and those that turn out to be late, batch by batch.

    Args:
        run: the application's frame.
        work: the projection's plan.
        checked: its definition as Spark understands it; None if all of its pieces are held.
        policy: what to do about events that are missing. If it is strict all is one batch:
            nothing is written before the last gap is known.
        done: is filled batch by batch, so that it is known if a later one fails.

    Raises:
        LockHeld: another run works on this projection.
        LockLost: our own lock ran out while we worked.
        HistoryPurged: events were deleted before they were consumed.
        WrongData: the policy is strict and there is a gap, or a blocking check fails.
        TidemarkError: some pieces failed, the others are done: a blocking check fails, the result
            contradicts the rules of the projection's mode, the user's code raises, or an event
            cannot be read or folded and on-error is fail.
    """
    with claim(
        run,
        work.ledger,
        work.pieces,
        resource=resource_of(run, work.definition),
        by_day=False,
    ) as claimed:
        postpone(work, run.owner)
        if work.held:
            claimed.finish_some(set(work.held), State.HELD, {}, work.waits_for)
        if checked is not None:
            there = work if policy.accept_purged else _without_emptied(claimed, work, policy, done)
            if there.time_buckets:
                process_claimed(run, claimed, there, checked, policy, done)
    require_done(work, done)


def _without_emptied(claimed: Claim, work: Work, policy: Policy, done: ProjectionOutcome) -> Work:
    """What is left when time buckets that purge has emptied are left as they are.

    Raises:
        BucketsLost: there are some, and the policy is strict.
    """
    gone = work.gone
    if not gone:
        return work
    if policy.strict:
        raise BucketsLost(gone, work.definition.name)
    leave_out(claimed, done, gone)
    kept = [piece for piece in work.pieces if piece.time_bucket not in gone]
    return replace(work, pieces=kept, done=work.done - gone.keys(), left_out=frozenset(gone))


def process_claimed(
    run: RunContext,
    claimed: Claim,
    work: Work,
    checked: AnalyzedDefinition,
    policy: Policy,
    done: ProjectionOutcome,
) -> None:
    """Do the pieces that are claimed, and those that turn out to be late; as `process` does.

    Pieces that their events make fail are in `done.failed`; it is for the caller to say so.
    """
    batches = Batches(run, work, whole=policy.strict)
    halving = Bisection(run, claimed, policy, done, partial(_Processing, run, claimed, checked))
    for batch in batches.each(unsettled=done.gaps):
        batches.measured(*halving.work_off(batch))


class _Processing:
    """One projection over one batch of the time buckets that it has claimed."""

    def __init__(
        self, run: RunContext, claimed: Claim, checked: AnalyzedDefinition, work: Work
    ) -> None:
        self._run, self._claimed, self._checked, self._work = run, claimed, checked, work
        self._time_buckets: Sequence[int] = work.time_buckets
        self._now = clock.now()
        self._subject = checked.definition.subject(run.settings.journal_keyspace)

    @property
    def time_buckets(self) -> Sequence[int]:
        """Those planned, and once they are known the late ones."""
        return self._time_buckets

    @property
    def _definition(self) -> Definition:
        return self._checked.definition

    def run_all(self, policy: Policy, done: ProjectionOutcome) -> tuple[int, int]:
        """Read, accept, decode, quarantine; then result, offsets, cursors, ledger.

        Returns how many events were read, and the bytes of their payloads.
        """
        self._say(f"reading the events of {counted(len(self._time_buckets), 'bucket')}")
        watch = Watch.begin(self._run, self._definition)
        taken = accept.accept(self._run, self._claimed, self._work, self._subject, policy)
        self._time_buckets = taken.time_buckets
        distinct = transform.single_events if taken.is_single else transform.distinct_events
        events = distinct(taken.rows)
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
                self._quarantine(transform.unreadable(decoded))
            if self._definition.mode is Mode.FOLD:
                result = self._folded(decoded, taken, policy, counts, totals)
            else:
                result = analyze.apply(self._definition, transform.readable(decoded))
            watch.require_undisturbed()
            stored = self._write_result(result, taken, counts)
            self._write_offsets(decoded, taken.reached)
            self._note_made(taken, counts, is_sure=True)
            self._write_missing(taken)
        finally:
            decoded.unpersist()
            taken.release()
        for bucket in self._time_buckets:
            counts.setdefault(bucket, {}).update(taken.counts.get(bucket, {}))
        for bucket, gap in taken.gaps.items():
            self._claimed.finish_some({bucket}, State.HELD, counts, gap)
        self._claimed.finish_some(set(self._time_buckets) - set(taken.gaps), State.DONE, counts)
        totals |= {**taken.totals, "rows_written": stored.rows}
        done.add(counts, totals, taken, stored.warnings)
        return totals["events_read"], sum(row.bytes_read for row in by_bucket)

    def _quarantine(self, letters: DataFrame) -> None:
        dead_letters.quarantine_events(letters, self._run, self._claimed, self._definition)

    def _folded(
        self,
        decoded: DataFrame,
        taken: AcceptedEvents,
        policy: Policy,
        counts: dict[int, dict[str, int]],
        totals: dict[str, int],
    ) -> DataFrame:
        """The new states; what cannot be folded is quarantined and counted."""
        folded = folding.fold(
            self._run, self._checked, decoded, taken, accept_purged=policy.accept_purged
        )
        taken.cached = [*taken.cached, folded.cached]
        for row in folded.letters.groupBy("time_bucket").count().collect():
            totals["quarantined"] += row["count"]
            # Those of a history lie in buckets that this run does not process.
            if row.time_bucket in counts:
                counts[row.time_bucket]["quarantined"] += row["count"]
        if not folded.letters.isEmpty():
            self._quarantine(folded.letters)
        return folded.states

    def _note_made(
        self,
        taken: AcceptedEvents,
        counts: Mapping[int, Mapping[str, int]],
        *,
        is_sure: bool = False,
    ) -> None:
        """Before the result, what it is made from; again when the offsets are written."""
        if not self._definition.mode.replaces_buckets:
            return
        self._claimed.check()
        noted = {}
        for bucket in self._made_again(taken):
            read = counts.get(bucket, {}).get("events_read", 0)
            new = taken.counts.get(bucket, {}).get("accepted", 0)
            noted[bucket] = (
                Made(read, 0, self._definition.fingerprint) if is_sure else Made(read, new, "")
            )
        made_from.note(self._run, self._definition, noted)

    def _write_result(
        self, result: DataFrame, taken: AcceptedEvents, counts: dict[int, dict[str, int]]
    ) -> Counted:
        """Store the result; adds rows_written to the counts of each bucket if they are known."""
        self._say(f"writing {self._definition.target}")
        made_again = self._made_again(taken)
        batch = WriteRequest(self._run, self._claimed, self._definition, made_again)
        stored = modes.write(batch, result, partial(self._note_made, taken, counts))
        if stored.by_bucket is not None:
            for bucket in made_again:
                counts.setdefault(bucket, {})["rows_written"] = stored.by_bucket.get(bucket, 0)
        return stored

    def _made_again(self, taken: AcceptedEvents) -> Sequence[int]:
        return [bucket for bucket in self._time_buckets if bucket not in taken.standing]

    def _write_offsets(self, decoded: DataFrame, reached: DataFrame) -> None:
        self._say("writing the offsets")
        run, settings = self._run, self._run.settings
        newest = {row.slice: row.epoch_ms for row in transform.newest_by_slice(decoded).collect()}
        self._claimed.check()
        consumption.write_offsets(rule.offset_rows(reached), settings, self._subject, self._now)
        self._claimed.check()
        consumption.write_cursors(run.control, settings, self._subject, newest, self._now)

    def _write_missing(self, taken: AcceptedEvents) -> None:
        new = {each.time_bucket for each in self._claimed.pieces if each.attempt == 1}
        former = [bucket for bucket in self._time_buckets if bucket not in new]
        self._claimed.check()
        missing_numbers.replace(self._run, self._subject, self._work.slices, former, taken.missing)

    def _say(self, text: str) -> None:
        self._run.say(f"{self._definition.name}: {text}")
