"""The plan of a purge of expired journals, and its application."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from typing import Protocol
from zoneinfo import ZoneInfo

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.kafka_journal import expired
from tidemark.kafka_journal.tables import SEGMENTS, lock_of
from tidemark.partitioning import columns
from tidemark.partitioning.keys import head_segment
from tidemark.retention.kafka_journal import store
from tidemark.retention.kafka_journal.apply import Verdicts, purge
from tidemark.retention.kafka_journal.journals import (
    MOST_SEGMENTS,
    Head,
    Journal,
    reason_to_keep,
)
from tidemark.retention.kafka_journal.store import Begun
from tidemark.retention.needs.kafka_journal import TopicNeeds, needed_of_topics
from tidemark.retention.target import TargetPlan, Tombstones, digest
from tidemark.retention.undo.kafka_journal import save_kafka_journals
from tidemark.spark.local_rows import local_rows
from tidemark.text import counted

MOST_JOURNALS = 50_000
"""Journals that one run deletes, those that expired first; the others are left to the next."""
_NAMED = 3


class ExpiryPolicy(Protocol):
    """What a policy says of expired journals."""

    @property
    def zone(self) -> str:
        """The time zone of the replicator, in which it computed `expire_on`."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics whose expired journals go; all if none is named."""


def plan_expiry(
    run: RunContext, policy: ExpiryPolicy, given_up: Collection[str] = ()
) -> TargetPlan:
    """Plan the purge of all journals whose day of expiry is today or before, missed days included.

    A journal stays while a reader needs one of its events, while its last record is not wholly
    replicated (a replicator that starts again would bring it back), and while an append to it is
    under way. Each is looked at again right before its purge, and stays if its head has changed.

    Args:
        run: the context of the run.
        policy: which topics, and the time zone of their replicator.
        given_up: the names of projections without a file, and of other readers, that need nothing.

    Raises:
        InvalidInput: the time zone or a topic is unknown, or there is no directory of projections.
        SchemaMismatch: kafka-journal's tables are missing or of another shape.
        DefinitionError: a projection file cannot be used, so that its needs are unknown.
    """
    settings = run.settings
    expired.require_expiry(run.control, settings)
    today = _day(run.moment, policy.zone)
    replicated = expired.replicated(run.control, settings)
    known = {topic for topic, _ in replicated}
    if unknown := sorted(set(policy.topics) - known):
        raise InvalidInput(
            f"no topic {', '.join(unknown)} was ever replicated",
            where=f"{settings.kafka_journal_keyspace}.{settings.kafka_pointer_table}",
            do=f"name some of {', '.join(sorted(known))}" if known else "",
        )
    heads = expired.expired_heads(run.spark, settings, today, policy.topics).localCheckpoint()
    begun = store.begun(run.control, settings, policy.topics or known)
    journals = _journals(heads, begun)
    events, left = _read(run, journals)
    needs = needed_of_topics(run, events, given_up)
    verdicts = _judge(
        run,
        _with_rows(journals, left, events, needs),
        replicated,
        begun,
        more=heads.count() - len(journals),
        needs_all="its needs are unknown" if needs.everything else "",
    )
    return _plan(run, verdicts, needs, today)


def _day(moment: datetime, zone: str) -> date:
    try:
        return moment.astimezone(ZoneInfo(zone)).date()
    except (KeyError, ValueError, OSError):
        raise InvalidInput(
            f"no time zone is named {zone!r}",
            where="zone",
            do="write the replicator's time zone, such as `Europe/Berlin` or `UTC`",
        ) from None


def _journals(heads: DataFrame, begun: Sequence[Begun]) -> list[Journal]:
    """Return the journals of the heads that expired first, with the segments to delete."""
    rows = heads.orderBy("expire_on", "topic", "id", "head_segment").limit(MOST_JOURNALS).collect()
    former = {(one.topic, one.id): one for one in begun}
    journals = []
    for row in rows:
        head = Head(
            row.topic,
            row.id,
            row.head_segment,
            row.segment_size,
            row.partition,
            row.offset,
            row.seq_nr or 0,
            row.deleted_to,
            str(row.expire_on),
            row.updated_ms or 0,
        )
        first, last = head.segments()
        if (other := former.get((head.topic, head.id))) is not None:
            first, last = min(first, other.first_segment), max(last, other.last_segment)
        journals.append(Journal(head, first, last))
    return journals


def _read(run: RunContext, journals: Sequence[Journal]) -> tuple[DataFrame, DataFrame]:
    """Read what is left of journals: the events that readers see, and all rows; in memory."""
    places = local_rows(
        run.spark,
        [
            (head.topic, head.id, head.deleted_to or 0, one.first_segment, one.last_segment)
            for one in journals
            if (head := one.head) and one.segment_count <= MOST_SEGMENTS
        ],
        "topic string, id string, deleted_to bigint, first bigint, last bigint",
    )
    segments = places.select("topic", "id", F.explode(F.sequence("first", "last")).alias("segment"))
    left = expired.rows_left(segments.distinct().localCheckpoint(), run.settings).localCheckpoint()
    alive = left.join(places.select("topic", "id", "deleted_to"), on=["topic", "id"]).where(
        F.col("seq_nr") > F.col("deleted_to")
    )
    events = alive.select(
        "topic",
        F.col("id").alias("persistence_id"),
        F.col("seq_nr").alias("sequence_nr"),
        columns.epoch_ms_ticks(F.col("epoch_ms")).alias("ticks"),
        columns.time_bucket(F.col("epoch_ms"), run.settings.bucket_size).alias("time_bucket"),
        "partition",
        "offset",
    )
    return events.localCheckpoint(), left


def _with_rows(
    journals: Sequence[Journal], left: DataFrame, events: DataFrame, needs: TopicNeeds
) -> list[Journal]:
    """Add to journals what their rows say: a row for each journal is collected."""
    key = ["topic", "persistence_id"]
    held = events.join(needs.per_id, on=key).where(F.col("sequence_nr") >= F.col("needed_from"))
    readers = {
        (row.topic, row.persistence_id): row.reader
        for row in held.groupBy(*key).agg(F.min("reader").alias("reader")).collect()
    }
    found = {
        (row.topic, row.id): row
        for row in left.groupBy("topic", "id")
        .agg(F.max("write_time").alias("write_time"), F.max("seq_nr").alias("last_nr"))
        .collect()
    }
    return [
        replace(
            one,
            needed_by=readers.get((one.head.topic, one.head.id), ""),
            write_time=(row.write_time or 0) if row else 0,
            last_nr=row.last_nr if row else 0,
        )
        for one in journals
        for row in [found.get((one.head.topic, one.head.id))]
    ]


def _judge(
    run: RunContext,
    journals: Sequence[Journal],
    replicated: Mapping[tuple[str, int], int],
    begun: Sequence[Begun],
    *,
    more: int,
    needs_all: str,
) -> Verdicts:
    old = [one.head for one in journals if one.head.is_old]
    keys = [(head.topic, head_segment(head.id, SEGMENTS), head.id) for head in old]
    found = store.heads(run.control, run.settings, keys)
    hidden = {head for head, other in zip(old, found, strict=True) if other is not None}
    doomed, kept = [], []
    for one in journals:
        reason = needs_all or reason_to_keep(one, replicated)
        if one.head in hidden:
            reason = "it has another head, which is the one that readers find"
        if reason:
            kept.append((one, reason))
        else:
            doomed.append(one)
    going = {(one.head.topic, one.head.id) for one in doomed}
    unfinished = [one for one in begun if (one.topic, one.id) not in going]
    return Verdicts(doomed, kept, unfinished, more)


def _plan(run: RunContext, verdicts: Verdicts, needs: TopicNeeds, today: date) -> TargetPlan:
    doomed, unfinished = verdicts.doomed, verdicts.unfinished
    partitions = sum(one.segment_count for one in doomed)
    partitions += sum(one.last_segment - one.first_segment + 1 for one in unfinished)
    counts = {
        "journals_purged": len(doomed),
        "journals_kept": len(verdicts.kept),
        "journals_left": verdicts.more,
        "journals_finished": len(unfinished),
    }
    keys = [(one.head, one.first_segment, one.last_segment, one.write_time) for one in doomed]
    return TargetPlan(
        counts,
        [*_lines(verdicts, today), *needs.everything, *needs.told],
        Tombstones(partitions=partitions, rows=len(doomed)),
        digest([*sorted(keys, key=repr), *sorted(unfinished, key=repr)]),
        [lock_of(run.settings)],
        partial(purge, run, verdicts, counts) if doomed or unfinished else None,
        {"today": today.isoformat()},
        partial(
            save_kafka_journals,
            run,
            [(one.head.topic, one.head.segment, one.head.id) for one in doomed],
            [(one.head.id, one.head.topic, one.first_segment, one.last_segment) for one in doomed],
        )
        if doomed
        else None,
    )


def _lines(verdicts: Verdicts, today: date) -> list[str]:
    lines = []
    by_topic = Counter(one.head.topic for one in verdicts.doomed)
    for topic, number in sorted(by_topic.items()):
        own = [one.head for one in verdicts.doomed if one.head.topic == topic]
        first = min(head.expire_on for head in own)
        lines.append(
            f"{topic}: purge {counted(number, 'journal')} that expired from {first} to {today}:"
            f" {_named([head.id for head in own])}"
        )
    reasons = Counter((one.head.topic, reason) for one, reason in verdicts.kept)
    for (topic, reason), number in sorted(reasons.items()):
        own = [one.head for one, why in verdicts.kept if (one.head.topic, why) == (topic, reason)]
        ids = _named([head.id for head in own])
        lines.append(f"{topic}: keep {counted(number, 'journal')}: {reason}: {ids}")
    if verdicts.unfinished:
        unfinished = counted(len(verdicts.unfinished), "journal")
        lines.append(f"finish {unfinished} that an earlier purge began")
    if verdicts.more:
        lines.append(f"{counted(verdicts.more, 'more expired journal')} left for the next run")
    return lines or [f"no journal expired on {today} or before"]


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else ""
    return f"{', '.join(sorted(ids)[:_NAMED])}{more}"
