"""Plans and applies the purge of expired journals: a Purge record for each.

`replicate` deletes a journal when it reads its record, after all earlier records. The plan reads
pointers, quarantine, heads, then Kafka, in this order: a record up to the pointer is in its head
or in quarantine, and any later record is found in Kafka.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from itertools import groupby
from typing import Protocol

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tidemark.application.approval import digest
from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.journals.kafka import expired
from tidemark.journals.kafka.tables import JOURNAL_KEY, lock_of
from tidemark.purge.kafka_journal import send
from tidemark.purge.kafka_journal.judge import expired_heads, in_turn, with_needs, with_reasons
from tidemark.purge.kafka_journal.shapes import EXPIRED, JUDGED
from tidemark.purge.kafka_journal.unreplicated import TopicProgress, topic_progress, unreplicated
from tidemark.purge.messages.deletes import fingerprint
from tidemark.purge.target import TargetPlan, Tombstones
from tidemark.replicate import quarantine
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import ddl, shaped
from tidemark.text import counted

MOST_JOURNALS = 1_000_000
"""Journals that one run purges; the next run purges the others."""
_NAMED = 10
"""Journals that a line lists."""


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
    or is held in quarantine, and while `replicate` would reject its topic partition. `given_up` are
    the names of projections without a file, and of other readers, that need nothing.

    Raises:
        InvalidInput: the time zone contradicts the settings, a topic is unknown, or there is no
            directory of projections.
    """
    settings = run.settings
    _require_zone(policy, settings)
    expired.require_expiry(run.control, settings)
    replicated = expired.replicated(run.control, settings)
    _require_known(policy.topics, {topic for topic, _ in replicated}, settings)
    today = expired.day_of(run.moment, settings)
    journals = expired_heads(run, today, policy.topics)
    rows = journals.select("topic", "partition").distinct().collect()
    partitions = [TopicPartition(row["topic"], row["partition"]) for row in rows]
    progress = topic_progress(run, partitions) if partitions else TopicProgress({}, {}, ())
    tail = unreplicated(run, progress.spans)
    held_records = quarantine.held_keys(run, progress.partitions)
    no_keys = local_rows(run.spark, [], ddl(JOURNAL_KEY))
    held_keys = no_keys if held_records is None else held_records.select(*JOURNAL_KEY).distinct()
    judged = with_reasons(journals, progress.rejected, tail, held_keys.localCheckpoint())
    judged, needs = with_needs(run, judged.localCheckpoint(), given_up)
    purged = in_turn(judged, MOST_JOURNALS).localCheckpoint()
    segments = F.sum(F.col("last_segment") - F.col("first_segment") + 1)
    [totals] = purged.agg(F.count("*").alias("journals"), segments.alias("segments")).collect()
    kept_journals = judged.where(F.col("reason").isNotNull())
    counts = {"journals_purged": totals["journals"], "journals_kept": kept_journals.count()}
    counts["journals_left"] = remaining = judged.count() - sum(counts.values())
    lines = [*_lines(purged), *_lines(kept_journals)] or [f"no journal has expired before {today}"]
    if remaining:
        lines.append(f"{counted(remaining, 'more expired journal')} left for the next run")
    return TargetPlan(
        counts,
        [*lines, *needs.everything, *needs.notices],
        # The deletes that `replicate` makes for the records.
        Tombstones(partitions=totals["segments"] or 0, rows=totals["journals"]),
        digest(fingerprint(purged.select(*EXPIRED))),
        [f"{lock_of(settings)}/expiry"],
        partial(_purge, run, purged, counts) if totals["journals"] else None,
        {"today": today.isoformat()},
    )


def _purge(
    run: RunContext, journals: DataFrame, counts: Mapping[str, int], ensure_locked: EnsureLocked
) -> Mapping[str, int]:
    sent = send.send_purges(run, journals, ensure_locked)
    run.say("replicate deletes the journals when it comes to their Purge records")
    # `replicate` makes the planned deletes.
    return {**counts, "journals_purged": sent, "partitions_deleted": 0, "rows_deleted": 0}


def _require_zone(policy: ExpiryPolicy, settings: Settings) -> None:
    zone = settings.kafka_journal_zone
    if policy.zone is not None and policy.zone != zone:
        raise InvalidInput(
            f"the zone {policy.zone} contradicts TIDEMARK_KAFKA_JOURNAL_ZONE, which is {zone}",
            where="zone",
            do="leave it out, and set the variable to the time zone of the replicator",
        )


def _require_known(
    topics: Collection[str], replicated: Collection[str], settings: Settings
) -> None:
    if unknown := sorted(set(topics) - set(replicated)):
        raise InvalidInput(
            f"no topic {', '.join(unknown)} was ever replicated",
            where=f"{settings.kafka_journal_keyspace}.{settings.kafka_pointer_table}",
            do=f"name some of {', '.join(sorted(replicated))}" if replicated else "",
        )


@shaped(journals=JUDGED)
def _lines(journals: DataFrame) -> list[str]:
    """Return a line for each topic and reason, with the number of journals and the first ids."""
    group = Window.partitionBy("topic", "reason")
    first_rows = (
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
    for (topic, reason), rows in groupby(first_rows, lambda row: (row["topic"], row["reason"])):
        group_rows = list(rows)
        number = group_rows[0]["journals"]
        action = (
            f"keep {counted(number, 'journal')}: {reason}"
            if reason
            else f"purge {counted(number, 'journal')} that expired from {group_rows[0]['first']} to"
            f" {group_rows[0]['last']}"
        )
        more = f" and {number - len(group_rows):,} more" if number > len(group_rows) else ""
        lines.append(f"{topic}: {action}: {', '.join(row['id'] for row in group_rows)}{more}")
    return lines
