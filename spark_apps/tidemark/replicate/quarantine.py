"""Records that are not replicated: unreadable ones, and later ones of their keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.cassandra import connector
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.journals.kafka.tables import JOURNAL_KEY
from tidemark.journals.kafka.wire.shapes import DECODED, PLACE, RECORDS
from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.replicate.quarantined import (
    KEEPS_BACK,
    TABLE,
    Quarantined,
    keeping_back,
    with_any,
)
from tidemark.replicate.shapes import HELD, HELD_FROM, STOPPED
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.window import from_millis

_OF_KEY = (*JOURNAL_KEY, "partition")
_KEPT_BACK = (*_OF_KEY, "offset", "state")
_STORED = (*PLACE, "id", "timestamp", "key", "value", "headers")
_MENDED = ("mended_value", "mended_headers")
_SAME = (*PLACE, "timestamp", "key")
"""The columns that identify a record in quarantine: its topic may have been recreated."""


def oldest_waiting(
    run: RunContext, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, datetime]:
    """Return the time of the oldest waiting record of each partition that has one.

    Records that wait for a held one of their key do not count, since they may wait for ever.
    `partitions` are all partitions of their topics.
    """
    with_waiting = with_any(run, partitions, Quarantined.WAITING)
    if not with_waiting:
        return {}
    waiting = _read(run, with_waiting, Quarantined.WAITING, *_OF_KEY, "timestamp")
    waiting = without_held(run, waiting, partitions)
    oldest = waiting.groupBy("topic", "partition").agg(
        F.unix_millis(F.min("timestamp")).alias("oldest")
    )
    return {
        TopicPartition(row["topic"], row["partition"]): from_millis(row["oldest"])
        for row in oldest.collect()
    }


@shaped(returns=HELD_FROM)
def held_keys(run: RunContext, partitions: Sequence[TopicPartition]) -> DataFrame | None:
    """Return the keys that are kept back, each from its first record on; None if none are."""
    parts = [
        _read(run, in_state, state, *_OF_KEY, "offset").withColumn("state", F.lit(state.value))
        for state, in_state in keeping_back(run, partitions).items()
    ]
    if not parts:
        return None
    return _first_of_each(reduce(DataFrame.unionByName, parts))


@shaped(records=JOURNAL_KEY)
def without_held(
    run: RunContext, records: DataFrame, partitions: Sequence[TopicPartition]
) -> DataFrame:
    """Return waiting records without those of keys with a held record."""
    keys = held_keys(run, partitions)
    if keys is None:
        return records
    held = keys.where(F.col("state") == Quarantined.HELD.value)
    return records.join(held, list(JOURNAL_KEY), "left_anti")


@shaped(returns=HELD)
def all_held(run: RunContext) -> DataFrame:
    """Return the held records of all topics of the keyspace, without waiting ones."""
    name = table(run.settings.keyspace, TABLE)
    rows = run.control.execute(
        f"SELECT DISTINCT journal_keyspace, topic, partition, state FROM {name}"
    )
    partitions = [
        TopicPartition(row["topic"], row["partition"])
        for row in rows
        if row["state"] == Quarantined.HELD
        and row["journal_keyspace"] == run.settings.kafka_journal_keyspace
    ]
    return _read(run, partitions, Quarantined.HELD, *HELD)


@shaped(returns=RECORDS)
def stored_records(
    run: RunContext, partitions: Iterable[TopicPartition], state: Quarantined = Quarantined.HELD
) -> DataFrame:
    """Return all records in a state, with the new content of mended ones.

    Further columns are their keys as `id`, and the `run_id` of the run that found them.
    """
    return _content(_read(run, partitions, state, *_STORED, *_MENDED, "run_id"))


@shaped(records=RECORDS, returns=RECORDS)
def corrected(
    run: RunContext, records: DataFrame, partitions: Sequence[TopicPartition]
) -> DataFrame:
    """Return the records of partitions as they are replicated: mended ones with their new content.

    Skipped records are left out.
    """
    with_skipped = with_any(run, partitions, Quarantined.SKIPPED)
    if with_skipped:
        skipped_records = _read(run, with_skipped, Quarantined.SKIPPED, *_SAME)
        records = records.join(
            F.broadcast(skipped_records), _is_same(records, skipped_records), "left_anti"
        )
    with_mended = with_any(run, partitions, Quarantined.MENDED)
    if not with_mended:
        return records
    stored = stored_records(run, with_mended, Quarantined.MENDED)
    mended_records = stored.select(*_SAME, F.struct("value", "headers").alias("mended"))
    joined = records.join(F.broadcast(mended_records), _is_same(records, mended_records), "left")
    is_mended = F.col("mended").isNotNull()
    content = {
        name: F.when(is_mended, F.col("mended")[name]).otherwise(records[name])
        for name in ("value", "headers")
    }
    return joined.select(*(content.get(name, records[name]).alias(name) for name in RECORDS))


def _is_same(records: DataFrame, stored: DataFrame) -> Column:
    """Return whether a record is the one in quarantine; its key may be null."""
    return reduce(Column.__and__, [records[name].eqNullSafe(stored[name]) for name in _SAME])


def _content(stored: DataFrame) -> DataFrame:
    is_mended = F.col("mended_headers").isNotNull()
    headers = F.when(is_mended, F.col("mended_headers")).otherwise(F.col("headers"))
    return stored.select(
        *(name for name in RECORDS if name not in ("value", "headers")),
        F.when(is_mended, F.col("mended_value")).otherwise(F.col("value")).alias("value"),
        F.from_json(headers, RECORDS["headers"]).alias("headers"),
        *("id", "run_id"),
    )


def keep(run: RunContext, replayed: DataFrame, skipped: DataFrame) -> None:
    """Keep released records as evidence: skipped ones, and replayed ones if they were mended.

    Both frames have topic, partition and offset.
    """
    settings = run.settings
    states = replayed.select(*PLACE, F.lit(Quarantined.MENDED.value).alias("state")).unionByName(
        skipped.select(*PLACE, F.lit(Quarantined.SKIPPED.value).alias("state"))
    )
    partitions = [
        TopicPartition(row["topic"], row["partition"])
        for row in states.select("topic", "partition").distinct().collect()
    ]
    evidence = ("cause", "run_id", "found_at", *_MENDED)
    stored = _read(run, partitions, Quarantined.HELD, *_STORED, *evidence)
    is_skipped = F.col("state") == Quarantined.SKIPPED.value
    rows = (
        stored.join(states, list(PLACE))
        .where(is_skipped | F.col("mended_headers").isNotNull())
        .withColumn("journal_keyspace", F.lit(settings.kafka_journal_keyspace))
    )
    connector.write(rows, settings.keyspace, TABLE)


def release(run: RunContext, records: DataFrame, state: Quarantined = Quarantined.HELD) -> None:
    """Delete records in a state, given by topic, partition, id and offset."""
    keys = records.select(
        F.lit(run.settings.kafka_journal_keyspace).alias("journal_keyspace"),
        *("topic", "partition"),
        F.lit(state.value).alias("state"),
        *("id", "offset"),
    )
    connector.delete(keys, run.settings.keyspace, TABLE)


def _read(
    run: RunContext, partitions: Iterable[TopicPartition], state: Quarantined, *columns: str
) -> DataFrame:
    settings = run.settings
    keys = local_rows(
        run.spark,
        [
            (settings.kafka_journal_keyspace, tp.topic, tp.partition, state.value)
            for tp in partitions
        ],
        "journal_keyspace string, topic string, partition int, state string",
    )
    return connector.read_partitions(keys, settings.keyspace, TABLE, *columns)


@shaped(decoded=DECODED, held=HELD_FROM, returns=HELD_FROM)
def held_from(decoded: DataFrame, held: DataFrame | None) -> DataFrame:
    """Return the keys that are held from now on."""
    unreadable = _first_of_each(
        decoded.where(F.col("cause").isNotNull()).select(
            *_OF_KEY, "offset", F.lit(Quarantined.HELD.value).alias("state")
        )
    )
    if held is None:
        return unreadable
    return _first_of_each(
        unreadable.unionByName(held).withColumnRenamed("held_from", "offset").select(*_KEPT_BACK)
    )


def _first_of_each(kept_back: DataFrame) -> DataFrame:
    # While a key waits in a partition, its unreadable records wait, too.
    is_waiting = F.col("state") == Quarantined.WAITING.value
    state = F.when(F.count_if(is_waiting) > 0, Quarantined.WAITING.value).otherwise(
        Quarantined.HELD.value
    )
    return (
        kept_back.groupBy(*_OF_KEY)
        .agg(F.min("offset").alias("held_from"), state.alias("state"))
        .select(*HELD_FROM)
    )


@shaped(decoded=DECODED, held=HELD_FROM, returns=DECODED)
def replicable(decoded: DataFrame, held: DataFrame) -> DataFrame:
    """Return the records that are not held."""
    return _with_held(decoded, held).where(~_is_held()).select(*DECODED)


@shaped(decoded=DECODED, held=HELD_FROM, returns=STOPPED)
def newly_held(decoded: DataFrame, held: DataFrame) -> DataFrame:
    """Return the records that are held; readable ones have no cause."""
    return _with_held(decoded, held).where(_is_held()).select(*STOPPED)


@shaped(records=RECORDS, stopped=STOPPED)
def write(records: DataFrame, stopped: DataFrame, settings: Settings, run_id: str) -> None:
    """Write the records of a batch that are `stopped` into quarantine, as they are in Kafka."""
    keys = stopped.select(*PLACE, "id", "state", "cause")
    rows = records.join(keys, list(PLACE)).select(
        F.lit(settings.kafka_journal_keyspace).alias("journal_keyspace"),
        *PLACE,
        *("id", "state", "cause", "timestamp", "key", "value"),
        F.to_json("headers").alias("headers"),
        F.lit(run_id).alias("run_id"),
        F.lit(clock.now()).alias("found_at"),
    )
    connector.write(rows, settings.keyspace, TABLE)


def forget(run: RunContext, partitions: Sequence[TopicPartition]) -> None:
    """Delete records kept back of partitions that begin anew: existing ones are read again."""
    run.control.execute_many(
        f"DELETE FROM {table(run.settings.keyspace, TABLE)} WHERE journal_keyspace = ?"
        " AND topic = ? AND partition = ? AND state = ?",
        [
            (run.settings.kafka_journal_keyspace, tp.topic, tp.partition, state)
            for tp in partitions
            for state in KEEPS_BACK
        ],
    )


def release_others(
    run: RunContext, records: DataFrame, partitions: Sequence[TopicPartition]
) -> None:
    """Delete records kept back at offsets where the topic now has other records."""
    present = records.select(*PLACE, F.struct("timestamp", "key").alias("now"))
    is_other = ~F.col("now").eqNullSafe(F.struct("timestamp", "key"))
    for state, in_state in keeping_back(run, partitions).items():
        stored = _read(run, in_state, state, *_SAME, "id")
        release(run, stored.join(present, list(PLACE)).where(is_other), state)


def _with_held(decoded: DataFrame, held: DataFrame) -> DataFrame:
    return decoded.join(held, list(_OF_KEY), "left")


def _is_held() -> Column:
    return F.coalesce(F.col("offset") >= F.col("held_from"), F.lit(False))
