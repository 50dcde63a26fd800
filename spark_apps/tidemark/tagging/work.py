"""The work of tag-write on claimed pieces: number, write the rows, then say how far they reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from tidemark.application import Run
from tidemark.journal import frames
from tidemark.ledger.claim import Claim
from tidemark.local_rows import local_rows
from tidemark.tagging import events, holding, read, rules, store, transform
from tidemark.tagging.plan import Strategy
from tidemark.tagging.rules import Rule

COUNTS = ("events_read", "tag_rows_written", "late_tag_rows")
EXAMPLES = 3


@dataclass
class Result:
    """What a run did.

    Attributes:
        strategy: how the events were found, and why.
        counts: by time bucket and kind.
        quarantined: events that cannot be written, among all that were read.
        rows_before_first: tag rows before the first time bucket.
        contradictions: some of them, for people.
        contradicted_ids: how many persistence ids were left alone.
        held_buckets: the time buckets, done before or of this run, that lack events of those.
    """

    strategy: str
    counts: Mapping[int, Mapping[str, int]]
    quarantined: int = 0
    rows_before_first: int = 0
    contradictions: Sequence[str] = field(default_factory=list)
    contradicted_ids: int = 0
    held_buckets: set[int] = field(default_factory=set)

    def totals(self) -> dict[str, int]:
        """The counts over all time buckets, for the report."""
        totals = {name: sum(each[name] for each in self.counts.values()) for name in COUNTS}
        return totals | {"quarantined": self.quarantined, "ids_held": self.contradicted_ids}

    def lines(self) -> list[str]:
        """What people should know beside the counts."""
        lines = [f"strategy: {self.strategy}"]
        if self.rows_before_first:
            lines.append(
                f"{self.rows_before_first:,} rows lie before events-by-tag.first-time-bucket:"
                " readers without an offset never see them"
            )
        return [*lines, *self.contradictions]


class Work:
    """One run over its pieces."""

    def __init__(
        self,
        run: Run,
        claimed: Claim,
        done: set[int],
        tag_rules: Sequence[Rule],
        strategy: Strategy | None,
    ) -> None:
        """Bind; `done` are the time buckets that earlier runs have done."""
        self._run = run
        self._claimed = claimed
        self._rules = tag_rules
        self._strategy = strategy
        self._planned = {piece.time_bucket for piece in claimed.pieces}
        self._buckets = local_rows(
            run.spark,
            [(bucket, bucket in self._planned) for bucket in sorted(self._planned | done)],
            "time_bucket bigint, is_planned boolean",
        )

    def do(self) -> Result:
        """Read, number, write rows, progress, scanning and tails.

        Raises:
            LockLost: the run must not write any more.
            CassandraUnavailable: a statement failed.
        """
        run = self._run
        source = read.source(run, self._claimed.pieces, self._rules, self._strategy)
        seen = Observation("events")
        index = read.index(source, self._rules).observe(seen, F.count("cause").alias("quarantined"))
        # Checkpoints and not caches: the plans that follow would grow with each cache they use, and
        # planning is what a small run spends its time on.
        ranked = transform.ranked(index).localCheckpoint()
        anchors = read.anchors(run, ranked, source)
        series = transform.anchored(ranked, source.known, anchors).localCheckpoint(eager=False)
        marked = self._marked(ranked, series).localCheckpoint(eager=False)
        run.say("numbering the tagged events")
        found = transform.counts_by_bucket(marked).collect()  # one row for each bucket
        result = Result(
            f"{source.strategy}, {source.why}",
            {row.time_bucket: {name: row[name] for name in COUNTS} for row in found},
            quarantined=int(seen.get["quarantined"]),
        )
        # A late row goes into a day that is not of this run: nobody may purge or rebuild it now.
        self._claimed.cover(row.time_bucket for row in found if row.late_tag_rows)
        self._hold(result, ranked, series)
        if result.quarantined:
            self._claimed.check()
            store.quarantine_unwritable(self._run, source.messages, self._rules)
        self._write_rows(result, source, series, sum(row.tags for row in found))
        self._write_completeness(marked, source)
        return result

    def _marked(self, ranked: DataFrame, series: DataFrame) -> DataFrame:
        return transform.mark_covered(transform.numbered(ranked, series), self._buckets)

    def _hold(self, result: Result, ranked: DataFrame, series: DataFrame) -> None:
        bad = series.where(F.col("contradiction").isNotNull())
        result.contradicted_ids = bad.select("persistence_id").distinct().count()
        if not result.contradicted_ids:
            return
        result.contradictions = [
            f"{row.persistence_id} tag {row.tag}: {row.contradiction}"
            for row in bad.orderBy(*transform.SERIES).limit(EXAMPLES).collect()
        ]
        held = holding.held_buckets(ranked, series, self._buckets)
        # No more than pieces + done.
        result.held_buckets = {row.time_bucket for row in held.collect()}

    def _write_rows(
        self, result: Result, source: read.Source, series: DataFrame, partitions: int
    ) -> None:
        settings = self._run.settings
        with_rows = [bucket for bucket, n in result.counts.items() if n["tag_rows_written"]]
        if not with_rows:
            return
        first = settings.first_time_bucket
        result.rows_before_first = sum(
            result.counts[bucket]["tag_rows_written"] for bucket in with_rows if bucket < first
        )
        self._run.say(f"writing {result.totals()['tag_rows_written']:,} rows of the tag views")
        messages = events.tagged(source.messages, self._rules)
        if source.strategy is Strategy.SCAN:
            end = max(with_rows) + settings.bucket_size.milliseconds
            messages = read.payload_in(messages, min(with_rows), end)
        rows = transform.to_write(self._marked(transform.ranked(messages), series))
        self._claimed.check()
        store.write_tag_views(transform.tag_view_rows(rows), settings, partitions)

    def _write_completeness(self, marked: DataFrame, source: read.Source) -> None:
        run, settings = self._run, self._run.settings
        run.say("writing tag_write_progress and tag_scanning")
        self._claimed.check()
        store.write_progress(transform.progress_rows(marked), settings)
        covered = transform.covered_rows(marked).localCheckpoint(eager=False)
        self._claimed.check()
        scanning = frames.scanning(run.spark, settings)
        store.write_scanning(transform.scanning_rows(covered, scanning), settings)
        self._claimed.check()
        store.write_tails(
            transform.tail_rows(marked, covered, source.known),
            settings,
            rules.version(self._rules),
        )
