"""Replays held records in their order, up to the next unreadable one.

No record of a held key was replicated since, so its records come after all of its stored ones. They
leave quarantine last, so a replay that died is repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from tidemark.application.guarded_change import EnsureLocked, Plan, guarded_change
from tidemark.cassandra.schema import create_own_tables
from tidemark.context import Outcome, RunContext
from tidemark.errors import InvalidInput
from tidemark.journals.kafka import tables
from tidemark.journals.kafka.schema import prepare
from tidemark.journals.kafka.tables import JOURNAL_KEY
from tidemark.journals.kafka.wire.decode import decoded
from tidemark.ledger.locks import Locks
from tidemark.replicate import quarantine
from tidemark.replicate.apply import apply
from tidemark.replicate.folding import ActionBatch
from tidemark.replicate.held import moved
from tidemark.replicate.held.write_times import later_than_all
from tidemark.replicate.kafka.topics import TopicPartition, Topics
from tidemark.replicate.plan import batch_now
from tidemark.replicate.progress.pointers import raise_to_kept_back
from tidemark.replicate.quarantined import Quarantined, with_any
from tidemark.replicate.ranges import require_ended
from tidemark.replicate.tables.deletions import Notes, Purpose
from tidemark.replicate.tables.heads import heads_of
from tidemark.spark.python_workers import prepare_python_workers
from tidemark.spark.read_once import kept

_NAMED = 20
_LEAVING = ("replayed", "skipped")


@dataclass(frozen=True)
class ReplaySelection:
    """The records to replay.

    Attributes:
        topics: only these; all with the prefix of the settings if empty.
        keys: only these; all held ones if empty.
        skip: offsets of records of these keys that are ignored permanently.
    """

    topics: Collection[str] = ()
    keys: Collection[str] = ()
    skip: Collection[int] = ()


def run_replay(run: RunContext, choice: ReplaySelection, *, do: bool) -> Outcome:
    """Show the effect of a replay, or execute it.

    Raises:
        InvalidInput: a topic or key is unknown, or an offset to skip is not held.
        LockHeld: another run works on a topic partition.
        LockLost: a lock was lost during the run.
    """
    if choice.skip and len(choice.keys) != 1:
        raise InvalidInput("--skip names offsets of one key", where="--key", do="name the key")
    settings = run.settings
    partitions = Topics(settings).partitions(choice.topics)
    prepare(run.control, settings, origin=run.owner, dry_run=not do)
    create_own_tables(run.control, settings)
    with_held = with_any(run, partitions, Quarantined.HELD)
    resource, batch = tables.lock_of(settings), batch_now(settings)
    return guarded_change(
        run,
        "replay",
        settings.kafka_journal_keyspace,
        lambda: _plan(run, with_held, choice, batch),
        lock=lambda: Locks.of(run, [f"{resource}/{tp}" for tp in with_held]),
        apply=do,
    )


def _plan(
    run: RunContext,
    partitions: Collection[TopicPartition],
    choice: ReplaySelection,
    batch: ActionBatch,
) -> Plan:
    if not partitions:
        return Plan({}, ["nothing is held"], None)
    require_ended(run, partitions)
    with _held_records(run, partitions, choice) as held:
        keys = _keys_of(held)
    _require_known(choice, keys)
    counts = {
        "keys": len(keys),
        "records_replayed": sum(row["replayed"] for row in keys),
        "records_skipped": sum(row["skipped"] for row in keys),
        "records_still_held": sum(row["still"] for row in keys),
    }
    lines = [_line(row) for row in keys[:_NAMED]]
    if len(keys) > _NAMED:
        lines.append(f"and {len(keys) - _NAMED} keys more")
    if not counts["records_replayed"] and not counts["records_skipped"]:
        return Plan(counts, lines, None)
    return Plan(counts, lines, lambda check: _apply(run, partitions, choice, batch, counts, check))


def _line(row: Row) -> str:
    text = f"{row['topic']}/{row['partition']} {row['id']}: {row['replayed']} records come back"
    if row["skipped"]:
        text += f", {row['skipped']} are skipped"
    if row["still"]:
        stop = row["stop"]
        text += f", {row['still']} stay from offset {stop['offset']} on: {stop['cause']}"
    return text


@contextmanager
def _held_records(
    run: RunContext, partitions: Collection[TopicPartition], choice: ReplaySelection
) -> Iterator[DataFrame]:
    """Yield the chosen held records, decoded again, with the effect of a replay as `becomes`."""
    prepare_python_workers(run.spark)
    stored = quarantine.stored_records(run, partitions)
    if choice.keys:
        stored = stored.where(F.col("id").isin(*choice.keys))
    with kept(stored) as records, kept(decoded(records)) as parsed:
        heads = heads_of(parsed.select(*JOURNAL_KEY).distinct(), run.settings)
        checked = moved.with_those_below(parsed, heads).localCheckpoint()
        is_skipped = F.col("offset").isin(*choice.skip) if choice.skip else F.lit(False)
        is_poison = F.col("cause").isNotNull() & ~is_skipped
        stops = checked.where(is_poison).groupBy(*JOURNAL_KEY).agg(F.min("offset").alias("stop"))
        is_after_stop = F.coalesce(F.col("offset") >= F.col("stop"), F.lit(False))
        becomes = F.when(is_after_stop, "still").when(is_skipped, "skipped").otherwise("replayed")
        held = checked.join(stops, list(JOURNAL_KEY), "left").withColumn("becomes", becomes)
        yield held.drop("stop")


def _keys_of(held: DataFrame) -> list[Row]:
    """Return a row for each held key."""
    is_held = F.col("becomes") == "still"
    return (
        held.groupBy("topic", "partition", "id")
        .agg(
            *(
                F.count_if(F.col("becomes") == name).alias(name)
                for name in ("replayed", "skipped", "still")
            ),
            F.min_by(F.struct("offset", "cause"), F.when(is_held, F.col("offset"))).alias("stop"),
            F.collect_set(F.when(F.col("becomes") == "skipped", F.col("offset"))).alias("passed"),
        )
        .orderBy("topic", "partition", "id")
        .collect()
    )


def _require_known(choice: ReplaySelection, rows: list[Row]) -> None:
    if absent := set(choice.keys) - {row["id"] for row in rows}:
        raise InvalidInput(
            f"nothing is held of {', '.join(sorted(absent))}",
            where="--key",
            do="look into the table quarantined_record",
        )
    skipped = {offset for row in rows for offset in row["passed"]}
    if absent_offsets := set(choice.skip) - skipped:
        raise InvalidInput(
            f"no record is held at offset {min(absent_offsets)}, or one before it stops the replay",
            where="--skip",
            do="look into the table quarantined_record",
        )


def _apply(
    run: RunContext,
    partitions: Collection[TopicPartition],
    choice: ReplaySelection,
    batch: ActionBatch,
    counts: Mapping[str, int],
    ensure_locked: EnsureLocked,
) -> Mapping[str, int]:
    with _held_records(run, partitions, choice) as held:
        begin = later_than_all(run, list(partitions), held)
        notes = Notes(run, partitions, Purpose.REPLAY)
        # A key that came from another partition has waited for its remaining records there.
        good = held.where(F.col("becomes") == "replayed").repartition(*JOURNAL_KEY)
        apply(run, good, batch, notes, begin, ensure_locked, accepts_moved=True)
        ensure_locked()
        replayed, skipped = (held.where(F.col("becomes") == name) for name in _LEAVING)
        quarantine.keep(run, replayed, skipped)
        quarantine.release(run, replayed.unionByName(skipped))
    ensure_locked()
    raise_to_kept_back(run, list(partitions))
    return counts
