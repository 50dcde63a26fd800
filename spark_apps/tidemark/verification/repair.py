"""repair: writes the rows in which tables differ from their topics again, from Kafka.

Events are written first, then heads; extra events are deleted last. So the next repair completes
one that died. Its write times are after all earlier writes of these topic partitions, and the heads
make later runs of replicate write after the repair.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.application.guarded_change import EnsureLocked, Plan, guarded_change
from tidemark.cassandra import connector
from tidemark.cassandra.schema import create_own_tables
from tidemark.context import Outcome, RunContext
from tidemark.errors import InvalidInput, TidemarkError
from tidemark.journals.kafka import tables
from tidemark.journals.kafka.tables import JOURNAL_KEY
from tidemark.ledger.locks import Locks
from tidemark.replicate.kafka.failures import kafka_in_one_line
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.replicate.plan import batch_now
from tidemark.replicate.ranges import newest, require_ended
from tidemark.replicate.shapes import CHANGED_HEADS, WRITE_TIME, WRITTEN_ROWS
from tidemark.replicate.tables import rows
from tidemark.spark import gateway
from tidemark.spark.shapes import shaped
from tidemark.validate.findings import finding
from tidemark.validate.findings.check import Check
from tidemark.validate.layers.kafka_topic import checks
from tidemark.validate.layers.kafka_topic.events import Verdict
from tidemark.validate.layers.kafka_topic.find import (
    TopicComparison,
    first_comparison,
    second_comparison,
)
from tidemark.validate.layers.kafka_topic.heads import differing_fields
from tidemark.validate.layers.kafka_topic.shapes import EVENT_KEY, VERDICTS
from tidemark.validate.layers.kafka_topic.topic_scope import TopicScope, judged_partitions
from tidemark.validate.reading.inspection import Keep, kept_frames
from tidemark.verification.verify import REPAIRED, left_line, with_refused

_JOURNAL = tuple(JOURNAL_KEY)
_EVENT = tuple(EVENT_KEY)
_NAMED = 20


@dataclass(frozen=True)
class RepairWrites:
    """The writes of a repair.

    Attributes:
        comparison: the comparison of the journals with findings.
        findings: the findings to repair, as `topic`, `id`, `check_name`, `seq_nr`.
        heads: heads to write, of shape CHANGED_HEADS except for their write time.
        lost: the journals without a head whose first records Kafka no longer holds.
    """

    comparison: TopicComparison
    findings: DataFrame
    heads: DataFrame
    lost: DataFrame

    def events(self, check: Check, verdict: Verdict) -> DataFrame:
        """Return the events to repair of a check, of shape VERDICTS."""
        wanted = self.findings.where(F.col("check_name") == check.name)
        of_verdict = self.comparison.verdicts.where(F.col("verdict") == verdict.value)
        return of_verdict.join(
            wanted.select(*_JOURNAL, "seq_nr").distinct(), [*_JOURNAL, "seq_nr"], "left_semi"
        )


def run_repair(
    run: RunContext, topics: Sequence[str], keys: Collection[str], *, do: bool
) -> Outcome:
    """Show what a repair would write, or write it.

    The topics are compared without locks; under the locks only the journals with findings are
    compared again, by key. Topic partitions that `replicate` refuses are left out, and fail the
    run.
    """
    settings = run.settings
    create_own_tables(run.control, settings)
    topic_scope = TopicScope(topics, keys=keys)
    judged = judged_partitions(run, topic_scope)
    partitions = list(judged.bounds)
    spans = {partition: offsets.span for partition, offsets in judged.bounds.items()}
    resource = tables.lock_of(settings)
    with kept_frames() as keep, kafka_in_one_line(settings, spans):

        def compare() -> Callable[[], Plan]:
            if not partitions:
                return lambda: Plan({}, ["nothing of it is replicated and still in Kafka"], None)
            first = first_comparison(run, keep, topic_scope, judged)
            return lambda: _plan(run, keep, topic_scope, partitions, first)

        outcome = guarded_change(
            run,
            "repair",
            settings.kafka_journal_keyspace,
            lambda: compare()(),
            lock=lambda: Locks.of(run, [f"{resource}/{partition}" for partition in partitions]),
            apply=do,
            prepare=compare,
        )
    return with_refused(outcome, judged.refused)


def _plan(
    run: RunContext,
    keep: Keep,
    topic_scope: TopicScope,
    partitions: Sequence[TopicPartition],
    comparison: TopicComparison,
) -> Plan:
    require_ended(run, partitions)
    if not _repairable(comparison.findings).isEmpty():
        judged = judged_partitions(run, topic_scope)
        comparison = second_comparison(run, keep, topic_scope, judged, comparison)
    repairable = _repairable(comparison.findings)
    findings = gateway.leaf(
        keep(
            repairable.select(
                F.col("tag").alias("topic"),
                F.col("persistence_id").alias("id"),
                "check_name",
                F.col("number").alias("seq_nr"),
            )
        )
    )
    by_check = {
        row["check_name"]: row["count"] for row in findings.groupBy("check_name").count().collect()
    }
    if topic_scope.keys:
        ids = {row["id"] for row in findings.select("id").distinct().collect()}
        if absent := set(topic_scope.keys) - ids:
            raise InvalidInput(
                f"there is nothing to repair of {', '.join(sorted(absent))}",
                where="--key",
                do="run verify to see what there is",
            )
    writes = _writes(comparison, findings, keep)
    lost = writes.lost.count()
    counts = {
        "events_written": by_check.get(checks.MISSING_EVENT.name, 0)
        + by_check.get(checks.DIFFERENT_EVENT.name, 0),
        "events_deleted": by_check.get(checks.EXTRA_EVENT.name, 0),
        "events_not_judged": comparison.left,
        "heads_written": writes.heads.count(),
        "heads_lost": lost,
    }
    lines = finding.first_lines(repairable, _NAMED, "topic")
    if lost:
        [example] = writes.lost.orderBy(*_JOURNAL).limit(1).collect()
        lines.append(
            f"{lost} heads cannot be told, such as that of {example['id']}: Kafka does not hold"
            " the first records of their journals any more"
        )
    if not by_check:
        return Plan(counts, ["there is nothing to repair", *left_line(comparison.left)], None)
    lines += left_line(comparison.left)
    return Plan(counts, lines, lambda check: _apply(run, partitions, writes, counts, check))


def _repairable(findings: DataFrame) -> DataFrame:
    return findings.where(F.col("check_name").isin(*REPAIRED))


def _writes(comparison: TopicComparison, findings: DataFrame, keep: Keep) -> RepairWrites:
    is_head = F.col("check_name") == checks.DIFFERENT_HEAD.name
    with_findings = findings.groupBy(*_JOURNAL).agg(F.max(is_head).alias("is_different"))
    journals = comparison.journals.join(with_findings, list(_JOURNAL)).join(
        comparison.heads, list(_JOURNAL), "left"
    )
    is_head_known = F.col("head").isNotNull() | F.col("is_whole") | F.col("begins")
    unpurged = journals.where(F.col("said").isNotNull())
    heads = unpurged.where(is_head_known).select(
        *_JOURNAL, F.col("head").alias("before"), _repaired_head().alias("head")
    )
    lost = unpurged.where(~is_head_known).select(*_JOURNAL)
    return RepairWrites(comparison, findings, gateway.leaf(keep(heads)), gateway.leaf(keep(lost)))


def _repaired_head() -> Column:
    """Return the stored head, with the values of its records in the fields that differ."""
    head, said = F.col("head"), F.col("said")
    differs = F.when(F.col("is_different"), differing_fields())
    for name in ("offset", "seq_nr", "delete_to", "expire_after", "expire_on"):
        kind = "expire_after" if name == "expire_on" else name
        value = F.when(F.array_contains(differs, kind), said[name]).otherwise(head[name])
        head = head.withField(name, value)
    return F.when(F.col("head").isNull(), said).otherwise(head)


def _apply(
    run: RunContext,
    partitions: Sequence[TopicPartition],
    writes: RepairWrites,
    counts: Mapping[str, int],
    ensure_locked: EnsureLocked,
) -> Mapping[str, int]:
    settings = run.settings
    write_time = _write_time(run, partitions, writes.comparison.heads)
    stamp = F.lit(write_time)
    missing, different, extra = (
        writes.events(check, verdict)
        for check, verdict in (
            (checks.MISSING_EVENT, Verdict.MISSING),
            (checks.DIFFERENT_EVENT, Verdict.DIFFERENT),
            (checks.EXTRA_EVENT, Verdict.EXTRA),
        )
    )
    events = writes.comparison.rows.withColumn(WRITE_TIME, stamp).select(*WRITTEN_ROWS)
    ensure_locked()
    rows.write_events(_of(events, missing).repartition(*JOURNAL_KEY), settings)
    ensure_locked()
    rows.overwrite_events(_of(events, different), settings)
    heads = writes.heads.withColumn(WRITE_TIME, stamp).select(*CHANGED_HEADS)
    ensure_locked()
    rows.remove_expiry(heads, settings)
    rows.remove_delete_to(heads, settings)
    ensure_locked()
    rows.write_heads(heads, settings, batch_now(settings).at)
    if counts["events_deleted"]:
        _delete(run, extra, write_time, ensure_locked)
    return counts


@shaped(events=WRITTEN_ROWS, returns=WRITTEN_ROWS)
def _of(events: DataFrame, wanted: DataFrame) -> DataFrame:
    return events.join(wanted.select(*_EVENT), list(_EVENT), "left_semi")


def _write_time(run: RunContext, partitions: Sequence[TopicPartition], heads: DataFrame) -> int:
    """Return a write time (microseconds) after all writes of the topic partitions."""
    entries = newest(run.control, run.settings, partitions).values()
    after_ranges = [entry.range.last_write_time + 1 for entry in entries]
    [newest_head] = heads.agg(F.max("write_time").alias("last")).collect()
    return max(clock.now_micros(), *after_ranges, (newest_head["last"] or 0) + 1, 0)


@shaped(extra=VERDICTS)
def _delete(
    run: RunContext, extra: DataFrame, write_time: int, ensure_locked: EnsureLocked
) -> None:
    """Delete rows of journal, which executors do, at the time of their clocks.

    Raises:
        TidemarkError: these clocks are not after all writes of the topic partitions.
    """
    settings = run.settings
    ahead = write_time - connector.latest_clock(run.spark)
    if ahead >= 0:
        raise TidemarkError(
            "events that no record has are not deleted yet: rows were written"
            f" {ahead / 1_000_000:,.1f} s ahead of the clocks of Spark's machines",
            where=settings.kafka_journal_keyspace,
            do="run repair again after that time, and compare the clocks of the machines",
        )
    ensure_locked()
    connector.delete(
        extra.select("id", "topic", "segment", "seq_nr", "timestamp"),
        settings.kafka_journal_keyspace,
        settings.kafka_journal_table,
    )
