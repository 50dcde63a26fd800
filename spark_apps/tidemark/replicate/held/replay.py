"""The replay of held records: back in their order, up to the next that cannot be read.

Nothing of a held key was replicated since, so its records come behind all that is stored of it.
They leave quarantine last; until then a replay that died is done again.
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
from tidemark.replicate.fold import ActionBatch
from tidemark.replicate.held import moved
from tidemark.replicate.held.write_times import later_than_all
from tidemark.replicate.kafka.topics import TopicPartition, Topics
from tidemark.replicate.plan import batch_now
from tidemark.replicate.progress.pointers import raise_to_kept_back
from tidemark.replicate.quarantine import Quarantined
from tidemark.replicate.ranges import require_ended
from tidemark.replicate.tables.deletions import Notes, Purpose
from tidemark.replicate.tables.heads import heads_of
from tidemark.spark.python_workers import prepare_python_workers
from tidemark.spark.read_once import kept

_NAMED = 20
_LEAVING = ("replayed", "skipped")


@dataclass(frozen=True)
class ReplaySelection:
    """What is to be replayed.

    Attributes:
        topics: only these; all with the prefix of the settings if none is named.
        keys: only these; all held ones if none is named.
        skip: offsets of records of these keys that are passed over for good.
    """

    topics: Collection[str] = ()
    keys: Collection[str] = ()
    skip: Collection[int] = ()


def run_replay(run: RunContext, choice: ReplaySelection, *, do: bool) -> Outcome:
    """Show what a replay would do, or do it.

    Raises:
        InvalidInput: a topic or key is unknown, or an offset to skip is not held.
        LockHeld: another run works on a topic partition.
        LockLost: a lock was lost on the way.
    """
    if choice.skip and len(choice.keys) != 1:
        raise InvalidInput("--skip names offsets of one key", where="--key", do="name the key")
    settings = run.settings
    partitions = Topics(settings).partitions(choice.topics)
    prepare(run.control, settings, origin=run.owner, dry_run=not do)
    create_own_tables(run.control, settings)
    holding = quarantine.with_any(run, partitions, Quarantined.HELD)
    resource, batch = tables.lock_of(settings), batch_now(settings)
    return guarded_change(
        run,
        "replay",
        settings.kafka_journal_keyspace,
        lambda: _plan(run, holding, choice, batch),
        lock=lambda: Locks.of(run, [f"{resource}/{one}" for one in holding]),
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
    with _held(run, partitions, choice) as held:
        told = _told(held)
    _require_known(choice, told)
    counts = {
        "keys": len(told),
        "records_replayed": sum(one["replayed"] for one in told),
        "records_skipped": sum(one["skipped"] for one in told),
        "records_still_held": sum(one["still"] for one in told),
    }
    lines = [_line(one) for one in told[:_NAMED]]
    if len(told) > _NAMED:
        lines.append(f"and {len(told) - _NAMED} keys more")
    if not counts["records_replayed"] and not counts["records_skipped"]:
        return Plan(counts, lines, None)
    return Plan(counts, lines, lambda check: _apply(run, partitions, choice, batch, counts, check))


def _line(told: Row) -> str:
    text = f"{told['topic']}/{told['partition']} {told['id']}: {told['replayed']} records come back"
    if told["skipped"]:
        text += f", {told['skipped']} are skipped"
    if told["still"]:
        stop = told["stop"]
        text += f", {told['still']} stay from offset {stop['offset']} on: {stop['cause']}"
    return text


@contextmanager
def _held(
    run: RunContext, partitions: Collection[TopicPartition], choice: ReplaySelection
) -> Iterator[DataFrame]:
    """Yield the chosen held records, decoded again; `becomes` says what a replay makes of each."""
    prepare_python_workers(run.spark)
    stored = quarantine.stored_records(run, partitions)
    if choice.keys:
        stored = stored.where(F.col("id").isin(*choice.keys))
    with kept(stored) as records, kept(decoded(records)) as read:
        heads = heads_of(read.select(*JOURNAL_KEY).distinct(), run.settings)
        found = moved.with_those_below(read, heads).localCheckpoint()
        is_skipped = F.col("offset").isin(*choice.skip) if choice.skip else F.lit(False)
        is_poison = F.col("cause").isNotNull() & ~is_skipped
        stops = found.where(is_poison).groupBy(*JOURNAL_KEY).agg(F.min("offset").alias("stop"))
        is_behind = F.coalesce(F.col("offset") >= F.col("stop"), F.lit(False))
        becomes = F.when(is_behind, "still").when(is_skipped, "skipped").otherwise("replayed")
        held = found.join(stops, list(JOURNAL_KEY), "left").withColumn("becomes", becomes)
        yield held.drop("stop")


def _told(held: DataFrame) -> list[Row]:
    """Return a row for each held key."""
    stays = F.col("becomes") == "still"
    return (
        held.groupBy("topic", "partition", "id")
        .agg(
            *(
                F.count_if(F.col("becomes") == name).alias(name)
                for name in ("replayed", "skipped", "still")
            ),
            F.min_by(F.struct("offset", "cause"), F.when(stays, F.col("offset"))).alias("stop"),
            F.collect_set(F.when(F.col("becomes") == "skipped", F.col("offset"))).alias("passed"),
        )
        .orderBy("topic", "partition", "id")
        .collect()
    )


def _require_known(choice: ReplaySelection, told: list[Row]) -> None:
    if absent := set(choice.keys) - {one["id"] for one in told}:
        raise InvalidInput(
            f"nothing is held of {', '.join(sorted(absent))}",
            where="--key",
            do="look into the table quarantined_record",
        )
    passed = {offset for one in told for offset in one["passed"]}
    if absent_offsets := set(choice.skip) - passed:
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
    with _held(run, partitions, choice) as held:
        begin = later_than_all(run, list(partitions), held)
        notes = Notes(run, partitions, Purpose.REPLAY)
        # One that has come from another partition has waited for all that is left of it there.
        good = held.where(F.col("becomes") == "replayed").repartition(*JOURNAL_KEY)
        apply(run, good, batch, notes, begin, ensure_locked, accepts_moved=True)
        ensure_locked()
        replayed, skipped = (held.where(F.col("becomes") == name) for name in _LEAVING)
        quarantine.keep(run, replayed, skipped)
        quarantine.release(run, replayed.unionByName(skipped))
    ensure_locked()
    raise_to_kept_back(run, list(partitions))
    return counts
