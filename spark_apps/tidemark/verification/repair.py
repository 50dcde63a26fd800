"""repair: the rows that topics and tables differ in, written anew from Kafka.

Events come first, then heads, then what should not be there goes, so that a repair that dies
anywhere is done by the next one. All is written behind everything that was ever written of these
topic partitions, and the heads tell later runs of replicate to write behind it in turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.application.guarded_change import EnsureLocked, Plan, guarded_change
from tidemark.cassandra.schema import create_own_tables, table
from tidemark.context import Outcome, RunContext
from tidemark.continuity.findings import finding
from tidemark.continuity.reading.inspection import kept_frames
from tidemark.errors import InvalidInput
from tidemark.inspection.kafka_topic import checks, rules
from tidemark.inspection.kafka_topic.asked import Asked
from tidemark.inspection.kafka_topic.find import Compared, looked_twice
from tidemark.kafka_journal import tables
from tidemark.kafka_journal.tables import JOURNAL_KEY
from tidemark.ledger.locks import Locks
from tidemark.replication.kafka.topics import TopicPartition, Topics
from tidemark.replication.plan import batch_now
from tidemark.replication.ranges import newest, require_ended
from tidemark.replication.shapes import CHANGED_HEADS, WRITE_TIME, WRITTEN_ROWS
from tidemark.replication.tables import rows
from tidemark.spark import gateway
from tidemark.spark.shapes import shaped
from tidemark.verification.verify import REPAIRED

_JOURNAL = tuple(JOURNAL_KEY)
_DELETED_TOGETHER = 500
_NAMED = 20


@dataclass(frozen=True)
class Mending:
    """What a repair does.

    Attributes:
        compared: the comparison, of the journals in question.
        found: the findings that are put right, as `topic`, `id`, `check_name`, `seq_nr`.
        heads: heads to be written, of shape CHANGED_HEADS but for their write time.
        lost: the journals without a head whose first records Kafka does not hold any more.
    """

    compared: Compared
    found: DataFrame
    heads: DataFrame
    lost: DataFrame


def run_repair(
    run: RunContext, topics: Sequence[str], keys: Collection[str], *, do: bool
) -> Outcome:
    """Show what a repair would write, or write it.

    Raises:
        InvalidInput: a topic is unknown, or nothing is found of a key.
        KafkaUnavailable: Kafka does not answer.
        LockHeld: another run works on a topic partition.
        SchemaMismatch: kafka-journal's tables are missing or of another shape.
    """
    settings = run.settings
    partitions = Topics(settings).partitions(topics)
    create_own_tables(run.control, settings)
    resource = tables.lock_of(settings)
    return guarded_change(
        run,
        "repair",
        settings.kafka_journal_keyspace,
        lambda: _plan(run, partitions, topics, keys),
        lock=lambda: Locks.of(run, [f"{resource}/{one}" for one in partitions]),
        apply=do,
    )


def _plan(
    run: RunContext,
    partitions: Sequence[TopicPartition],
    topics: Sequence[str],
    keys: Collection[str],
) -> Plan:
    require_ended(run, partitions)
    with _mending(run, topics, keys) as mending:
        found = mending.found.groupBy("check_name").count().collect()
        by_check = {row["check_name"]: row["count"] for row in found}
        lost = mending.lost.count()
        counts = {
            "events_written": by_check.get(checks.MISSING_EVENT.name, 0)
            + by_check.get(checks.DIFFERENT_EVENT.name, 0),
            "events_deleted": by_check.get(checks.EXTRA_EVENT.name, 0),
            "heads_written": mending.heads.count(),
            "heads_lost": lost,
        }
        repaired = mending.compared.findings.where(F.col("check_name").isin(*REPAIRED))
        lines = finding.first_lines(repaired, _NAMED, "topic")
        if lost:
            [first] = mending.lost.orderBy(*_JOURNAL).limit(1).collect()
            lines.append(
                f"{lost} heads cannot be told, such as that of {first['id']}: Kafka does not hold"
                " the first records of their journals any more"
            )
    if not found:
        return Plan(counts, lines or ["there is nothing to repair"], None)
    return Plan(counts, lines, lambda check: _apply(run, partitions, topics, keys, counts, check))


@contextmanager
def _mending(run: RunContext, topics: Sequence[str], keys: Collection[str]) -> Iterator[Mending]:
    with kept_frames() as keep:
        compared = looked_twice(run, keep, Asked(topics))
        found = compared.findings.where(F.col("check_name").isin(*REPAIRED)).select(
            F.col("tag").alias("topic"),
            F.col("persistence_id").alias("id"),
            "check_name",
            F.col("number").alias("seq_nr"),
        )
        if keys:
            found = found.where(F.col("id").isin(*keys))
            known = {row["id"] for row in found.select("id").distinct().collect()}
            if absent := set(keys) - known:
                raise InvalidInput(
                    f"there is nothing to repair of {', '.join(sorted(absent))}",
                    where="--key",
                    do="run verify to see what there is",
                )
        found = gateway.leaf(keep(found))
        journals = compared.journals.join(
            found.select(*_JOURNAL).distinct(), list(_JOURNAL), "left_semi"
        ).join(compared.heads, list(_JOURNAL), "left")
        is_told = F.col("head").isNotNull() | F.col("is_whole")
        heads = journals.where(is_told & F.col("said").isNotNull()).select(
            *_JOURNAL,
            F.col("head").alias("before"),
            _mended_head().alias("head"),
        )
        lost = journals.where(~is_told & F.col("said").isNotNull()).select(*_JOURNAL)
        yield Mending(compared, found, gateway.leaf(keep(heads)), gateway.leaf(keep(lost)))


def _mended_head() -> Column:
    """Return the stored head with what its records say otherwise; without one, what they say."""
    head, said, differs = F.col("head"), F.col("said"), rules.differing_fields()
    for name in ("partition", "offset", "seq_nr", "delete_to", "expire_after", "expire_on"):
        kind = "expire_after" if name == "expire_on" else name
        value = F.when(F.array_contains(differs, kind), said[name]).otherwise(head[name])
        head = head.withField(name, value)
    return F.when(F.col("head").isNull(), said).otherwise(head)


def _apply(
    run: RunContext,
    partitions: Sequence[TopicPartition],
    topics: Sequence[str],
    keys: Collection[str],
    counts: Mapping[str, int],
    ensure_locked: EnsureLocked,
) -> Mapping[str, int]:
    settings = run.settings
    with _mending(run, topics, keys) as mending:
        write_time = _write_time(run, partitions, mending.compared.heads)
        at = F.lit(write_time)
        wanted = {
            name: mending.found.where(F.col("check_name") == name).select(*_JOURNAL, "seq_nr")
            for name in REPAIRED
        }
        events = mending.compared.rows.withColumn(WRITE_TIME, at).select(*WRITTEN_ROWS)
        ensure_locked()
        rows.write_events(_of(events, wanted[checks.MISSING_EVENT.name]), settings, in_order=False)
        ensure_locked()
        rows.overwrite_events(_of(events, wanted[checks.DIFFERENT_EVENT.name]), settings)
        heads = mending.heads.withColumn(WRITE_TIME, at).select(*CHANGED_HEADS)
        ensure_locked()
        rows.remove_expiry(heads, settings)
        rows.remove_delete_to(heads, settings)
        ensure_locked()
        rows.write_heads(heads, settings, batch_now(settings).at)
        _delete(run, mending, write_time, ensure_locked)
    return counts


@shaped(events=WRITTEN_ROWS, returns=WRITTEN_ROWS)
def _of(events: DataFrame, wanted: DataFrame) -> DataFrame:
    return events.join(wanted, [*_JOURNAL, "seq_nr"], "left_semi")


def _write_time(run: RunContext, partitions: Sequence[TopicPartition], heads: DataFrame) -> int:
    """Return a write time (microseconds) behind all writes of the topic partitions."""
    entries = newest(run.control, run.settings, partitions).values()
    of_ranges = [entry.range.last_write_time + 1 for entry in entries]
    [of_heads] = heads.agg(F.max("write_time").alias("last")).collect()
    return max(clock.now_micros(), *of_ranges, (of_heads["last"] or 0) + 1, 0)


def _delete(
    run: RunContext, mending: Mending, write_time: int, ensure_locked: EnsureLocked
) -> None:
    """Delete rows without a record, and those whose record has another timestamp."""
    settings, key = run.settings, [*_JOURNAL, "seq_nr"]
    found = mending.found
    stored = mending.compared.stored.withColumn("timestamp", F.col("content")["timestamp"])
    said = mending.compared.said.select(
        *key, "offset", F.col("content")["timestamp"].alias("timestamp")
    )
    in_question = found.where(
        F.col("check_name").isin(checks.EXTRA_EVENT.name, checks.DIFFERENT_EVENT.name)
    ).select(*key)
    extra = stored.join(in_question.distinct(), key, "left_semi").join(
        said, [*key, "offset", "timestamp"], "left_anti"
    )
    journal = table(settings.kafka_journal_keyspace, settings.kafka_journal_table)
    statement = (
        f"DELETE FROM {journal} USING TIMESTAMP ?"
        " WHERE id = ? AND topic = ? AND segment = ? AND seq_nr = ? AND timestamp = ?"
    )
    values = (
        (write_time, row["id"], row["topic"], row["segment"], row["seq_nr"], row["timestamp"])
        for row in extra.select(*key, "segment", "timestamp").toLocalIterator()
    )
    while part := list(islice(values, _DELETED_TOGETHER)):
        ensure_locked()
        run.control.execute_many(statement, part)
