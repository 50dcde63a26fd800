"""Records that are not replicated: unreadable ones, and those of their keys behind them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.cassandra import connector
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.kafka_journal.tables import JOURNAL_KEY
from tidemark.kafka_journal.wire.shapes import DECODED, PLACE, RECORDS
from tidemark.replication.kafka.topics import TopicPartition
from tidemark.replication.shapes import HELD_FROM
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped

TABLE = "quarantined_record"
_STORED = (*PLACE, "id", "timestamp", "key", "value", "headers")
_MENDED = ("mended_value", "mended_headers")


class Quarantined(StrEnum):
    """What becomes of a record in quarantine.

    HELD ones wait for `replay`, with all behind them. SKIPPED ones are passed over for good. MENDED
    ones are replicated with the content that `mend` gave them.
    """

    HELD = "held"
    SKIPPED = "skipped"
    MENDED = "mended"


def holding(run: RunContext, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions of which a key is held."""
    return _with_any(run, partitions, Quarantined.HELD)


def _with_any(
    run: RunContext, partitions: Sequence[TopicPartition], state: Quarantined
) -> list[TopicPartition]:
    found = run.control.execute_many(
        f"SELECT id FROM {table(run.settings.keyspace, TABLE)} WHERE journal_keyspace = ?"
        " AND topic = ? AND partition = ? AND state = ? LIMIT 1",
        [
            (run.settings.kafka_journal_keyspace, one.topic, one.partition, state)
            for one in partitions
        ],
    )
    return [one for one, rows in zip(partitions, found, strict=True) if rows]


@shaped(returns=HELD_FROM)
def held_keys(run: RunContext, partitions: Iterable[TopicPartition]) -> DataFrame:
    """Return the keys that earlier runs hold, each from its first held record on."""
    held = _read(run, partitions, Quarantined.HELD, *JOURNAL_KEY, "offset")
    return held.groupBy(*JOURNAL_KEY).agg(F.min("offset").alias("held_from"))


@shaped(returns=PLACE)
def skipped(run: RunContext, partitions: Iterable[TopicPartition]) -> DataFrame:
    """Return the places of records that are passed over for good."""
    return _read(run, partitions, Quarantined.SKIPPED, *PLACE)


@shaped(returns=RECORDS)
def held_records(run: RunContext, partitions: Iterable[TopicPartition]) -> DataFrame:
    """Return all held records, and their keys as `id`; mended ones with their new content."""
    return _content(_read(run, partitions, Quarantined.HELD, *_STORED, *_MENDED))


@shaped(records=RECORDS, returns=RECORDS)
def with_mended(
    run: RunContext, records: DataFrame, partitions: Sequence[TopicPartition]
) -> DataFrame:
    """Return records as they are replicated: those that were mended with their new content.

    Args:
        run: the context of the run.
        records: as they stand in Kafka.
        partitions: all that they are of.
    """
    mended = _with_any(run, partitions, Quarantined.MENDED)
    if not mended:
        return records
    stored = _content(_read(run, mended, Quarantined.MENDED, *_STORED, *_MENDED))
    new = F.broadcast(stored.select(*PLACE, F.struct("value", "headers").alias("mended")))
    told = records.join(new, list(PLACE), "left")
    is_mended = F.col("mended").isNotNull()
    content = {
        name: F.when(is_mended, F.col("mended")[name]).otherwise(F.col(name))
        for name in ("value", "headers")
    }
    return told.withColumns(content).select(*RECORDS)


def _content(stored: DataFrame) -> DataFrame:
    is_mended = F.col("mended_headers").isNotNull()
    headers = F.when(is_mended, F.col("mended_headers")).otherwise(F.col("headers"))
    return stored.select(
        *(name for name in RECORDS if name not in ("value", "headers")),
        F.when(is_mended, F.col("mended_value")).otherwise(F.col("value")).alias("value"),
        F.from_json(headers, RECORDS["headers"]).alias("headers"),
        "id",
    )


def keep(run: RunContext, replayed: DataFrame, skipped: DataFrame) -> None:
    """Keep held records that leave for the evidence: skipped ones, and replayed ones if mended.

    Args:
        run: the context of the run.
        replayed: topic, partition and offset of records that are replicated by now.
        skipped: the same of records that are passed over for good.
    """
    settings = run.settings
    states = replayed.select(*PLACE, F.lit(Quarantined.MENDED.value).alias("state")).unionByName(
        skipped.select(*PLACE, F.lit(Quarantined.SKIPPED.value).alias("state"))
    )
    partitions = [
        TopicPartition(one["topic"], one["partition"])
        for one in states.select("topic", "partition").distinct().collect()
    ]
    also = ("cause", "run_id", "found_at", *_MENDED)
    stored = _read(run, partitions, Quarantined.HELD, *_STORED, *also)
    is_skipped = F.col("state") == Quarantined.SKIPPED.value
    kept = (
        stored.join(states, list(PLACE))
        .where(is_skipped | F.col("mended_headers").isNotNull())
        .withColumn("journal_keyspace", F.lit(settings.kafka_journal_keyspace))
    )
    connector.write(kept, settings.keyspace, TABLE)


def release(run: RunContext, records: DataFrame) -> None:
    """Delete held records, given by topic, partition, id and offset."""
    keys = records.select(
        F.lit(run.settings.kafka_journal_keyspace).alias("journal_keyspace"),
        *("topic", "partition"),
        F.lit(Quarantined.HELD.value).alias("state"),
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
            (settings.kafka_journal_keyspace, one.topic, one.partition, state.value)
            for one in partitions
        ],
        "journal_keyspace string, topic string, partition int, state string",
    )
    return connector.read_partitions(keys, settings.keyspace, TABLE, *columns)


@shaped(decoded=DECODED, held=HELD_FROM, returns=HELD_FROM)
def held_from(decoded: DataFrame, held: DataFrame | None) -> DataFrame:
    """Return the keys that are held from now on."""
    poison = decoded.where(F.col("cause").isNotNull()).select(
        *JOURNAL_KEY, F.col("offset").alias("held_from")
    )
    known = poison if held is None else poison.unionByName(held)
    return known.groupBy(*JOURNAL_KEY).agg(F.min("held_from").alias("held_from"))


@shaped(decoded=DECODED, held=HELD_FROM, returns=DECODED)
def passed(decoded: DataFrame, held: DataFrame) -> DataFrame:
    """Return the records that nothing holds."""
    return _with_held(decoded, held).where(~_is_held()).select(*DECODED)


@shaped(decoded=DECODED, held=HELD_FROM, returns=DECODED)
def stopped(decoded: DataFrame, held: DataFrame) -> DataFrame:
    """Return the records that are held; those that can be read have no cause."""
    return _with_held(decoded, held).where(_is_held()).select(*DECODED)


@shaped(records=RECORDS, decoded=DECODED)
def write(
    records: DataFrame, decoded: DataFrame, settings: Settings, state: Quarantined, run_id: str
) -> None:
    """Write records into quarantine as they stand in Kafka.

    Args:
        records: all records of the batch.
        decoded: those that go into quarantine.
        settings: where the table is.
        state: theirs.
        run_id: id of the run.
    """
    places = decoded.select(*PLACE, "id", "cause")
    rows = records.join(F.broadcast(places), list(PLACE)).select(
        F.lit(settings.kafka_journal_keyspace).alias("journal_keyspace"),
        *PLACE,
        "id",
        F.lit(state.value).alias("state"),
        "cause",
        "timestamp",
        "key",
        "value",
        F.to_json("headers").alias("headers"),
        F.lit(run_id).alias("run_id"),
        F.lit(clock.now()).alias("found_at"),
    )
    connector.write(rows, settings.keyspace, TABLE)


def _with_held(decoded: DataFrame, held: DataFrame) -> DataFrame:
    return decoded.join(F.broadcast(held), list(JOURNAL_KEY), "left")


def _is_held() -> Column:
    return F.coalesce(F.col("offset") >= F.col("held_from"), F.lit(False))
