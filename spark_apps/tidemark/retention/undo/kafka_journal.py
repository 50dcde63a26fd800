"""The copy of journals of kafka-journal that purge takes, and the way back.

events/   whole rows of journal
heads/    each row of metajournal as Cassandra's JSON, under its key

The order of the restore's writes is the replicator's: events, then the head, which shows them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.application.guarded_change import EnsureLocked
from tidemark.cassandra import connector
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.errors import WrongData
from tidemark.retention.messages.deletes import fingerprint
from tidemark.retention.target import TargetPlan, Tombstones, digest
from tidemark.retention.undo import copies, store
from tidemark.retention.undo.copies import Copy, Kind
from tidemark.retention.undo.visible import require_visible
from tidemark.spark.local_rows import local_rows
from tidemark.window import to_millis

_EVENTS, _HEADS = "events", "heads"
_PARTITION = ("id", "topic", "segment")
_EVENT = [*_PARTITION, "seq_nr", "timestamp"]
_MARKED = ("delete_to", "seq_nr")
"""The columns of a head that a purge writes before it deletes."""
HeadKey = tuple[str, int, str]
"""Topic, segment of metajournal, id."""
Segments = tuple[str, str, int, int]
"""Id, topic, the first and the last segment of journal."""


@dataclass(frozen=True)
class _Head:
    """A saved head, as Cassandra's JSON; `time_to_live` in seconds, 0 for ever."""

    key: HeadKey
    row: str
    write_time: int
    time_to_live: int


def save_kafka_journals(
    run: RunContext, keys: Sequence[HeadKey], segments: Sequence[Segments], place: str
) -> None:
    """Save journals of kafka-journal, before they are deleted.

    Args:
        run: the context of the run.
        keys: their heads.
        segments: their segments of journal.
        place: the directory of the copy.

    Raises:
        TidemarkError: the directory cannot be written; nothing was deleted.
    """
    keyspace, name = run.settings.kafka_journal_keyspace, run.settings.kafka_journal_table
    spans = local_rows(
        run.spark, list(segments), "id string, topic string, first bigint, last bigint"
    )
    exploded = spans.select("id", "topic", F.explode(F.sequence("first", "last")).alias("segment"))
    events = connector.read_partitions(
        exploded.distinct().localCheckpoint(),
        keyspace,
        name,
        *copies.columns_of(run.control, keyspace, name),
        # The replicator always writes it, also without a payload.
        ttl_of="partition",
        write_time_of="partition",
    )
    found = _stored_heads(run, keys)
    heads = local_rows(
        run.spark,
        [
            (*key, json.dumps(head["row"]), head["write_time"], head["ttl"])
            for key, head in zip(keys, found, strict=True)
            if head is not None
        ],
        "topic string, segment bigint, id string, row string, write_time bigint, ttl int",
    )
    copies.write(run, place, Kind.KAFKA_JOURNALS, {_EVENTS: events, _HEADS: heads})


def plan_kafka_journals(
    run: RunContext, found: Sequence[Copy], *, keep_write_times: bool
) -> TargetPlan:
    """Plan to write back the journals that copies of kafka-journal hold and the tables lack.

    Raises:
        WrongData: a journal has gone on: it has another head, or other events.
    """
    settings = run.settings
    heads = _saved_heads(run, found)
    now = _stored_heads(run, [head.key for head in heads])
    saved = copies.all_rows_of(run, found, _EVENTS, _EVENT)
    ids = local_rows(run.spark, [(h.key[0], h.key[2]) for h in heads], "topic string, id string")
    saved = saved.join(F.broadcast(ids.distinct()), on=["topic", "id"]).localCheckpoint()
    there = _there(run, saved).localCheckpoint()
    _require_not_gone_on(run, heads, now, saved, there)
    events = saved.join(there, on=_EVENT, how="left_anti").localCheckpoint()
    back = [
        head
        for head, other in zip(heads, now, strict=True)
        if other is None or other["row"] != json.loads(head.row)
    ]
    counts = {"kafka_events_restored": events.count(), "kafka_heads_restored": len(back)}

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        ensure_locked()
        store.write_kafka_events(events, settings, keep_write_times=keep_write_times)
        name = (settings.kafka_journal_keyspace, settings.kafka_journal_table)
        hidden = events.join(_there(run, events), on=_EVENT, how="left_anti").count()
        saved_at = found[-1].saved_at
        require_visible(run, {name: hidden}, saved_at, keep_write_times=keep_write_times)
        ensure_locked()
        at = run.control.write_time()
        written = [
            (head.row, head.write_time if keep_write_times else at, head.time_to_live)
            for head in back
        ]
        store.write_kafka_heads(run.control, settings, written)
        shown = _stored_heads(run, [head.key for head in back])
        name = (settings.kafka_journal_keyspace, settings.kafka_metajournal_table)
        hidden = sum(
            other is None or other["row"] != json.loads(head.row)
            for head, other in zip(back, shown, strict=True)
        )
        require_visible(run, {name: hidden}, saved_at, keep_write_times=keep_write_times)
        return counts

    lines = [
        f"{counts['kafka_heads_restored']:,} journals of kafka-journal come back, with"
        f" {counts['kafka_events_restored']:,} events",
        "purge deletes them again: they have expired; leave its policy out, or let them be appended"
        " to",
    ]
    return TargetPlan(
        counts,
        lines if any(counts.values()) else [],
        Tombstones(),
        digest([fingerprint(events.select(*_EVENT)), *sorted(head.key for head in back)]),
        (),
        apply if any(counts.values()) else None,
    )


def _stored_heads(run: RunContext, keys: Sequence[HeadKey]) -> list[dict[str, Any] | None]:
    """Read heads: `row` without what is null, `write_time` (microseconds), and `ttl` in seconds."""
    name = table(run.settings.kafka_journal_keyspace, run.settings.kafka_metajournal_table)
    where = "WHERE topic = ? AND segment = ? AND id = ?"
    rows = run.control.execute_many(f"SELECT JSON * FROM {name} {where}", keys)
    times = run.control.execute_many(
        f"SELECT WRITETIME(seq_nr) AS write_time, TTL(seq_nr) AS ttl FROM {name} {where}", keys
    )
    heads: list[dict[str, Any] | None] = []
    for found, written in zip(rows, times, strict=True):
        if not found or not written:
            heads.append(None)
            continue
        [text] = found[0].values()
        row = {column: value for column, value in json.loads(text).items() if value is not None}
        heads.append({"row": row, **written[0]})
    return heads


def _saved_heads(run: RunContext, found: Sequence[Copy]) -> list[_Head]:
    """Return the heads that are still alive, each from the first copy: a purge changes them."""
    heads: dict[HeadKey, _Head] = {}
    now = to_millis(clock.now())
    for copy in found:
        for row in run.spark.read.parquet(f"{copy.place}/{_HEADS}").collect():
            left = 0 if row.ttl is None else row.ttl - (now - row.saved_at) // 1000
            key = (row.topic, row.segment, row.id)
            if row.ttl is None or left > 0:
                heads.setdefault(key, _Head(key, row.row, row.write_time, left))
    return [heads[key] for key in sorted(heads)]


def _there(run: RunContext, rows: DataFrame) -> DataFrame:
    keys = rows.select(*_PARTITION).distinct()
    settings = run.settings
    return connector.read_partitions(
        keys, settings.kafka_journal_keyspace, settings.kafka_journal_table, *_EVENT
    )


def _require_not_gone_on(
    run: RunContext,
    heads: Sequence[_Head],
    now: Sequence[Mapping[str, Any] | None],
    saved: DataFrame,
    there: DataFrame,
) -> None:
    moved = [
        head.key[2]
        for head, other in zip(heads, now, strict=True)
        if other is not None and _unmarked(other["row"]) != _unmarked(json.loads(head.row))
    ]
    others = there.join(saved.select(*_EVENT), on=_EVENT, how="left_anti").select("id").distinct()
    moved += [row.id for row in others.orderBy("id").limit(3).collect()]
    if moved:
        raise WrongData(
            f"{', '.join(sorted(set(moved))[:3])}: the journal has gone on since: it has another"
            " head, or other events",
            where=run.settings.kafka_journal_keyspace,
            do="nothing was written; restore by hand what you need",
        )


def _unmarked(row: Mapping[str, Any]) -> dict[str, Any]:
    return {column: value for column, value in row.items() if column not in _MARKED}
