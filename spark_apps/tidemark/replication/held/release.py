"""The release of records that have waited, at the end of a run of replicate."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.application.guarded_change import EnsureLocked
from tidemark.context import RunContext
from tidemark.kafka_journal.tables import JOURNAL_KEY
from tidemark.kafka_journal.wire.decode import decoded
from tidemark.kafka_journal.wire.shapes import PLACE, RECORDS
from tidemark.replication import quarantine
from tidemark.replication.apply import apply, kept
from tidemark.replication.held import moved
from tidemark.replication.held.write_times import later_than_all
from tidemark.replication.kafka.topics import TopicPartition
from tidemark.replication.plan import batch_now
from tidemark.replication.quarantine import Quarantined
from tidemark.replication.tables.deletions import Notes, Purpose
from tidemark.replication.tables.heads import heads_of
from tidemark.spark.python_workers import prepare_python_workers

_OF_KEY = [*JOURNAL_KEY, "partition"]


def release_waiting(
    run: RunContext,
    partitions: Collection[TopicPartition],
    ended: Mapping[TopicPartition, bool],
    ensure_locked: EnsureLocked,
) -> int:
    """Replicate the waiting records whose turn it is; return how many there were.

    They leave quarantine last; until then a run that died is done again. What cannot be read is
    held from then on.

    Args:
        run: the context of the run.
        partitions: those that are locked: all of their topics.
        ended: as in `moved.ready`.
        ensure_locked: raises LockLost when the run must not write any more.
    """
    number = 0
    while there := quarantine.with_any(run, list(partitions), Quarantined.WAITING):
        run.start_spark()
        prepare_python_workers(run.spark)
        released = _turn(run, there, list(partitions), ended, ensure_locked)
        if not released:
            break
        number += released
    return number


def _turn(
    run: RunContext,
    there: list[TopicPartition],
    partitions: list[TopicPartition],
    ended: Mapping[TopicPartition, bool],
    ensure_locked: EnsureLocked,
) -> int:
    """Release what can be by now: a key that waits in several partitions takes several turns."""
    stored = quarantine.stored_records(run, there, Quarantined.WAITING)
    held = quarantine.held_keys(run, partitions)
    with kept(stored) as records, kept(decoded(records)) as found:
        heads = heads_of(found.select(*JOURNAL_KEY).distinct(), run.settings).localCheckpoint()
        of_run = found.join(records.select(*PLACE, "run_id"), [*PLACE])
        keys = moved.ready(of_run, heads, held, ended, run.run_id)
        with kept(found.join(keys, _OF_KEY, "left_semi")) as leaving:
            number = leaving.count()
            if number:
                _replicate(run, records, leaving, there, ensure_locked)
    return number


def _replicate(
    run: RunContext,
    records: DataFrame,
    leaving: DataFrame,
    there: list[TopicPartition],
    ensure_locked: EnsureLocked,
) -> None:
    from_first = quarantine.held_from(leaving, None)
    good = quarantine.passed(leaving, from_first)
    begin = later_than_all(run, there, leaving)
    notes = Notes(run, there, Purpose.REPLAY)
    apply(run, good, batch_now(run.settings), notes, begin, ensure_locked, accepts_moved=True)
    ensure_locked()
    stopped = quarantine.stopped(leaving, from_first)
    quarantine.write(records.select(*RECORDS), stopped, run.settings, run.run_id)
    ensure_locked()
    quarantine.release(run, leaving.select(*PLACE, F.col("id")), Quarantined.WAITING)
