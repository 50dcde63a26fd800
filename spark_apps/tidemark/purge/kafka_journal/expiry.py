"""The plan of a purge of expired journals, and its application: a Purge record for each.

`replicate` deletes the journals when it comes to these records, after all that was appended before
them. What is read, and in which order: pointers, quarantine, heads, then Kafka. A record up to the
pointer is in its head or in quarantine, and any other is found in Kafka.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from itertools import groupby
from typing import Protocol

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.journals.kafka import expired
from tidemark.journals.kafka.tables import JOURNAL_KEY, lock_of
from tidemark.purge.kafka_journal import send
from tidemark.purge.kafka_journal.judge import expired_heads, in_turn, with_needs, with_reasons
from tidemark.purge.kafka_journal.shapes import EXPIRED, JUDGED
from tidemark.purge.kafka_journal.unreplicated import Places, places, unreplicated
from tidemark.purge.messages.deletes import fingerprint
from tidemark.purge.target import TargetPlan, Tombstones, digest
from tidemark.replicate import quarantine
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import ddl, shaped
from tidemark.text import counted

MOST_JOURNALS = 1_000_000
"""Journals that one run purges; the others are left to the next."""
_NAMED = 10
"""Journals that a line names."""


class ExpiryPolicy(Protocol):
    """The policy of expired journals."""

    @property
    def zone(self) -> str | None:
        """The time zone in which a day ends; None for that of the settings."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics whose expired journals are purged; all if empty."""


def plan_expiry(
    run: RunContext, policy: ExpiryPolicy, given_up: Collection[str] = ()
) -> TargetPlan:
    """Plan a Purge record for each journal whose day of expiry is over, missed days included.

    A journal is kept while a reader needs one of its events, while a record of it is not replicated
    or is held in quarantine, and while `replicate` would reject its topic partition.

    Args:
        run: the context of the run.
        policy: the topics, and their time zone.
        given_up: the names of projections without a file, and of other readers, that need nothing.

    Raises:
        InvalidInput: the time zone contradicts the settings, a topic is unknown, or there is no
            directory of projections.
        KafkaUnavailable: Kafka does not answer.
        SchemaMismatch: kafka-journal's tables are missing or of another shape.
        DefinitionError: a projection file cannot be used, so that its needs are unknown.
    """
    settings = run.settings
    _require_zone(policy, settings)
    expired.require_expiry(run.control, settings)
    known = expired.replicated(run.control, settings)
    _require_known(policy.topics, {topic for topic, _ in known}, settings)
    today = expired.day_of(run.moment, settings)
    journals = expired_heads(run, today, policy.topics)
    found = journals.select("topic", "partition").distinct().collect()
    wanted = [TopicPartition(row["topic"], row["partition"]) for row in found]
    kafka = places(run, wanted) if wanted else Places({}, {}, ())
    tail = unreplicated(run, kafka.spans)
    held = quarantine.held_keys(run, kafka.partitions)
    no_key = local_rows(run.spark, [], ddl(JOURNAL_KEY))
    keys_held = no_key if held is None else held.select(*JOURNAL_KEY).distinct()
    judged = with_reasons(journals, kafka.rejected, tail, keys_held.localCheckpoint())
    judged, needs = with_needs(run, judged.localCheckpoint(), given_up)
    purged = in_turn(judged, MOST_JOURNALS).localCheckpoint()
    segments = F.sum(F.col("last_segment") - F.col("first_segment") + 1)
    [total] = purged.agg(F.count("*").alias("journals"), segments.alias("segments")).collect()
    kept = judged.where(F.col("reason").isNotNull())
    counts = {"journals_purged": total["journals"], "journals_kept": kept.count()}
    counts["journals_left"] = left = judged.count() - sum(counts.values())
    lines = [*_lines(purged), *_lines(kept)] or [f"no journal has expired before {today}"]
    if left:
        lines.append(f"{counted(left, 'more expired journal')} left for the next run")
    return TargetPlan(
        counts,
        [*lines, *needs.everything, *needs.told],
        # Deletes that `replicate` makes of the records.
        Tombstones(partitions=total["segments"] or 0, rows=total["journals"]),
        digest(fingerprint(purged.select(*EXPIRED))),
        [f"{lock_of(settings)}/expiry"],
        partial(_purge, run, purged, counts) if total["journals"] else None,
        {"today": today.isoformat()},
    )


def _purge(
    run: RunContext, journals: DataFrame, counts: Mapping[str, int], ensure_locked: EnsureLocked
) -> Mapping[str, int]:
    sent = send.send_purges(run, journals, ensure_locked)
    run.say("replicate deletes the journals when it comes to their Purge records")
    # What is planned as tombstones is deleted by `replicate`.
    return {**counts, "journals_purged": sent, "partitions_deleted": 0, "rows_deleted": 0}


def _require_zone(policy: ExpiryPolicy, settings: Settings) -> None:
    zone = settings.kafka_journal_zone
    if policy.zone is not None and policy.zone != zone:
        raise InvalidInput(
            f"the zone {policy.zone} contradicts TIDEMARK_KAFKA_JOURNAL_ZONE, which is {zone}",
            where="zone",
            do="leave it out, and set the variable to the time zone of the replicator",
        )


def _require_known(topics: Collection[str], known: Collection[str], settings: Settings) -> None:
    if unknown := sorted(set(topics) - set(known)):
        raise InvalidInput(
            f"no topic {', '.join(unknown)} was ever replicated",
            where=f"{settings.kafka_journal_keyspace}.{settings.kafka_pointer_table}",
            do=f"name some of {', '.join(sorted(known))}" if known else "",
        )


@shaped(journals=JUDGED)
def _lines(journals: DataFrame) -> list[str]:
    """Return a line for each topic and reason, with the number of journals and the first ids."""
    group = Window.partitionBy("topic", "reason")
    named = (
        journals.select(
            *("topic", "reason", "id"),
            F.row_number().over(group.orderBy("id")).alias("place"),
            F.count("*").over(group).alias("journals"),
            F.min("expire_on").over(group).alias("first"),
            F.max("expire_on").over(group).alias("last"),
        )
        .where(F.col("place") <= _NAMED)
        .orderBy("topic", "reason", "place")
        .collect()
    )
    lines = []
    for (topic, reason), rows in groupby(named, lambda row: (row["topic"], row["reason"])):
        own = list(rows)
        number = own[0]["journals"]
        what = (
            f"keep {counted(number, 'journal')}: {reason}"
            if reason
            else f"purge {counted(number, 'journal')} that expired from {own[0]['first']} to"
            f" {own[0]['last']}"
        )
        more = f" and {number - len(own):,} more" if number > len(own) else ""
        lines.append(f"{topic}: {what}: {', '.join(row['id'] for row in own)}{more}")
    return lines
