"""The work of tag-write on claimed pieces: number events, write rows, then write their progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.errors import TidemarkError
from tidemark.journals.pekko import message_rows
from tidemark.journals.pekko.messages.messages_by_key import MESSAGE
from tidemark.journals.pekko.tables import PAYLOAD_COLUMNS
from tidemark.ledger.claim import Claim
from tidemark.ledger.purged import emptied_buckets
from tidemark.numbering.rule import SERIES
from tidemark.spark.local_rows import local_rows
from tidemark.tag_write import evidence, numbering, read, rules, store, transform
from tidemark.tag_write.plan import Strategy
from tidemark.tag_write.rules import TagRule

COUNTS = ("events_read", "tag_rows_written", "late_tag_rows")
EXAMPLES = 3
FEW_LATE = 100_000
"""Up to this number, the keys of late events are broadcast instead of shuffling all payloads."""


@dataclass
class TagWriteResult:
    """The result of a run on its pieces.

    Attributes:
        strategy: the way in which the events were found.
        why: the reason for that strategy.
        counts: numbers of events and rows, by time bucket and the names in COUNTS.
        quarantined: number of events read that cannot be written.
        deleted_unseen: number of messages that were deleted before they were tagged.
        rows_before_first: number of tag rows before the first time bucket.
        contradictions: up to EXAMPLES contradictions, for people.
        contradicted_ids: number of persistence ids that were not written.
        held_buckets: time buckets, done before or of this run, that lack events of those ids.
    """

    strategy: Strategy
    why: str
    counts: Mapping[int, Mapping[str, int]]
    quarantined: int = 0
    deleted_unseen: int = 0
    rows_before_first: int = 0
    contradictions: Sequence[str] = field(default_factory=list)
    contradicted_ids: int = 0
    held_buckets: set[int] = field(default_factory=set)

    def totals(self) -> dict[str, int]:
        """Return the counts over all time buckets, for the report."""
        totals = {name: sum(counts[name] for counts in self.counts.values()) for name in COUNTS}
        return totals | {
            "quarantined": self.quarantined,
            "deleted_unseen": self.deleted_unseen,
            "ids_held": self.contradicted_ids,
        }

    def details(self) -> dict[str, object]:
        """Return the report's further fields for programs."""
        return {"strategy": self.strategy.value, "strategy_reason": self.why}

    def lines(self) -> list[str]:
        """Return the report's lines for people."""
        lines = [f"strategy: {self.strategy}, {self.why}"]
        if self.deleted_unseen:
            lines.append(
                "1 message was deleted before it was seen: it is never tagged"
                if self.deleted_unseen == 1
                else f"{self.deleted_unseen:,} messages were deleted before they were seen:"
                " they are never tagged"
            )
        if self.rows_before_first:
            lines.append(
                f"{self.rows_before_first:,} rows lie before events-by-tag.first-time-bucket:"
                " readers without an offset never see them"
            )
        return [*lines, *self.contradictions]


class TagWriteJob:
    """The work of one run on its claimed pieces."""

    def __init__(
        self,
        run: RunContext,
        claimed: Claim,
        done: Set[int],
        tag_rules: Sequence[TagRule],
        strategy: Strategy | None,
    ) -> None:
        """Prepare the work; `done`: the time buckets that earlier runs have done."""
        self._run = run
        self._claimed = claimed
        self._done = done
        self._rules = tag_rules
        self._strategy = strategy
        self._planned = {piece.time_bucket for piece in claimed.pieces}
        emptied = emptied_buckets(run.control, run.settings)
        self._buckets = local_rows(
            run.spark,
            [
                (bucket, bucket in self._planned, bucket in emptied)
                for bucket in sorted(self._planned | done)
            ],
            "time_bucket bigint, is_planned boolean, is_emptied boolean",
        )

    def do(self) -> TagWriteResult:
        """Read and number the events, then write rows, progress, scanning and tails."""
        read_at = self._run.control.write_time()
        source = read.source(
            self._run, self._claimed.pieces, self._done, self._rules, self._strategy
        )
        tagged = read.kept(source, self._rules, F.col("time_bucket").isin(*self._planned))
        try:
            # Read before the deletes, which then cover events that a delete left in this read.
            tagged.count()
            present = message_rows.undeleted(tagged, read.deleted(self._run, source))
            return self._write(source, present, read_at)
        finally:
            tagged.unpersist()

    def _write(
        self, source: read.MessagesToTag, present: DataFrame, read_at: int
    ) -> TagWriteResult:
        run = self._run
        seen = Observation("events")
        index = present.drop(*PAYLOAD_COLUMNS).observe(seen, F.count("cause").alias("quarantined"))
        inputs = evidence.NumberingInputs(
            source.records.progress,
            source.complete,
            rules.tags_of(self._rules),
            self._planned,
            run.settings.bucket_size,
        )
        numbered = evidence.numbered(index, inputs, read.rows_of(run, source))
        events = numbering.numbered(
            numbered.points, numbered.contradicted, numbered.reached, source.records.complete
        )
        marked = transform.mark_covered(events, self._buckets).localCheckpoint(eager=False)
        run.say("numbering the tagged events")
        bucket_counts = transform.counts_by_bucket(marked).collect()  # one row for each bucket
        result = TagWriteResult(
            source.strategy,
            source.why,
            {row.time_bucket: {name: row[name] for name in COUNTS} for row in bucket_counts},
            quarantined=int(seen.get["quarantined"]),
            deleted_unseen=self._deleted_unseen(source, numbered),
        )
        # A late row is written to a day outside this run, which must not be purged or rebuilt now.
        self._record_late([row.time_bucket for row in bucket_counts if row.late_tag_rows], marked)
        self._hold(result, numbered, source)
        if result.quarantined:
            self._claimed.check()
            store.quarantine_unwritable(run, present)
        self._write_rows(result, source, present, marked, sum(row.tags for row in bucket_counts))
        self._write_completeness(marked, source, numbered.reached, read_at)
        return result

    def _deleted_unseen(self, source: read.MessagesToTag, numbered: evidence.Numbered) -> int:
        unseen = numbering.unseen(numbered.spans, source.records.seen)
        [number] = unseen.agg(F.sum("unseen").alias("messages")).collect()
        return number["messages"] or 0

    def _record_late(self, buckets: Sequence[int], marked: DataFrame) -> None:
        if not buckets:
            return
        self._claimed.cover(buckets)
        self._claimed.check()
        store.record_late(transform.late_partitions(marked), self._run.settings)

    def _hold(
        self, result: TagWriteResult, numbered: evidence.Numbered, source: read.MessagesToTag
    ) -> None:
        contradicted = numbered.contradicted
        result.contradicted_ids = contradicted.select("persistence_id").distinct().count()
        if not result.contradicted_ids:
            return
        result.contradictions = [
            f"{row.persistence_id} tag {row.tag}: {row.contradiction}"
            for row in contradicted.orderBy(*SERIES).limit(EXAMPLES).collect()
        ]
        buckets = transform.held_buckets(
            numbered.entries, contradicted, numbered.reached, source.records.complete, self._buckets
        )
        # At most one row for each time bucket that is planned or done.
        result.held_buckets = {row.time_bucket for row in buckets.collect()}

    def _write_rows(
        self,
        result: TagWriteResult,
        source: read.MessagesToTag,
        present: DataFrame,
        marked: DataFrame,
        partitions: int,
    ) -> None:
        settings = self._run.settings
        with_rows = [bucket for bucket, n in result.counts.items() if n["tag_rows_written"]]
        if not with_rows:
            return
        first = settings.first_time_bucket
        result.rows_before_first = sum(
            result.counts[bucket]["tag_rows_written"] for bucket in with_rows if bucket < first
        )
        totals = result.totals()
        self._run.say(f"writing {totals['tag_rows_written']:,} rows of the tag views")
        rows = transform.to_write(marked)
        is_scan = source.strategy is Strategy.SCAN
        if is_scan and totals["late_tag_rows"]:
            late = self._late_rows(result, source, rows.where(~F.col("is_planned")))
            with_payload = transform.with_payload(rows.where("is_planned"), present).unionByName(
                late
            )
        else:
            with_payload = transform.with_payload(rows, present)
        self._claimed.check()
        store.write_tag_views(transform.tag_view_rows(with_payload), settings, partitions)

    def _late_rows(
        self, result: TagWriteResult, source: read.MessagesToTag, rows: DataFrame
    ) -> DataFrame:
        """Join late rows with their payload, which a scan keeps only for planned buckets.

        Raises:
            TidemarkError: a late event was deleted since it was numbered; nothing is written yet.
        """
        buckets = [bucket for bucket, n in result.counts.items() if n["late_tag_rows"]]
        wanted = rows.select(*MESSAGE).distinct().localCheckpoint()
        number = wanted.count()
        late = source.messages.where(F.col("time_bucket").between(min(buckets), max(buckets))).join(
            F.broadcast(wanted) if number <= FEW_LATE else wanted,
            on=MESSAGE,
            how="left_semi",
        )
        late = late.localCheckpoint()
        if deleted := number - late.count():
            subject = "late event was" if deleted == 1 else "late events were"
            pronoun = "it was" if deleted == 1 else "they were"
            raise TidemarkError(
                f"{deleted:,} {subject} deleted while {pronoun} numbered",
                where=self._run.settings.journal_keyspace,
                do="nothing was written; run again",
            )
        return transform.with_payload(rows, late)

    def _write_completeness(
        self, marked: DataFrame, source: read.MessagesToTag, reached: DataFrame, read_at: int
    ) -> None:
        settings = self._run.settings
        self._run.say("writing tag_write_progress and tag_scanning")
        self._claimed.check()
        store.write_progress(transform.progress_rows(marked), settings, write_time=read_at)
        covered = transform.covered_rows(marked).localCheckpoint(eager=False)
        self._claimed.check()
        rows = transform.scanning_rows(covered, source.records.scanning)
        store.write_scanning(rows, settings, write_time=read_at)
        self._claimed.check()
        store.write_tails(
            transform.tail_rows(marked, covered, source.records.complete, reached),
            settings,
            rules.version(self._rules),
            write_time=read_at,
        )
