"""Folds the actions on a journal into its head, one by one, independent of where runs are cut.

kafka-journal's replicator first thins out the actions of a poll, so its result depends on where its
polls end: of two successive deletes it executes the larger, and a new head has the origin of the
first append that was kept. Here each action has its own effect, as if each were a poll of its own.
So a run that is killed and then cut differently has the same result as an undisturbed one. Readers
see what any polls would produce, except after successive deletes of a journal without a head: there
the second may lower what the first has set, as in upstream when they come in two polls.

Source: com.evolution.kafka.journal.eventual.cassandra.ReplicatedCassandra (11.0.0).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.journals.kafka import segment_size
from tidemark.journals.kafka.expired import expire_on
from tidemark.journals.kafka.tables import JOURNAL_KEY, SEGMENTS
from tidemark.journals.kafka.wire.action import ActionType
from tidemark.partitioning import columns
from tidemark.replicate.folding import ActionBatch
from tidemark.replicate.shapes import ACTIONS, DELETION, FOLDED, HEAD, HEAD_FIELDS, HEADS, LIFE
from tidemark.spark.shapes import shaped

_STATE = f"struct<head:{HEAD},lives:array<{LIFE}>,deletions:array<{DELETION}>>"
_JOURNAL = tuple(JOURNAL_KEY)
_FIELDS = (
    *("offset", "first_offset", "partition", "action", "to", "first_nr", "last_nr"),
    *("expire_after", "expire_on", "origin", "segment", "record_id"),
)
"""The fields of a change, sorted by the first."""


@shaped(actions=ACTIONS, heads=HEADS, returns=FOLDED)
def folded(
    actions: DataFrame, heads: DataFrame, batch: ActionBatch, *, appends_only: bool = False
) -> DataFrame:
    """Fold the actions after the pointers on each journal into its head.

    The result of a journal that `has_moved` may be written only if all its actions are of one
    partition, and none remain in another. With `appends_only` no action is a delete or purge. Then
    no action depends on the one before it, and Spark compiles the fold instead of interpreting it.

    Returns:
        One row for each journal with an action that its head has not seen yet. A head of another
        partition has seen none.
    """
    before = {"head": "before", "write_time": "write_time_before"}
    stored = actions.join(heads.withColumnsRenamed(before), list(_JOURNAL), "left")
    is_purge = F.col("action") == ActionType.PURGE.value
    # Offsets of two partitions do not compare.
    is_same_partition = F.col("before")["partition"] == F.col("partition")
    stored = stored.withColumn("seen", F.when(is_same_partition, F.col("before")["offset"]))
    seen = F.col("seen")
    is_unseen = seen.isNull() | (F.col("offset") > seen) | (is_purge & (F.col("offset") == seen))
    head = F.first("before")
    changes = (
        _changes(stored.where(is_unseen), batch, appends_only=appends_only)
        .groupBy(*_JOURNAL)
        .agg(
            head.alias("before"),
            F.max("seen").alias("seen"),
            F.first("write_time_before").alias("write_time_before"),
            F.min("partition").alias("partition"),
            (
                (F.min("partition") != F.max("partition"))
                | F.coalesce(head["partition"] != F.min("partition"), F.lit(False))
            ).alias("has_moved"),
            F.sum("bytes").alias("bytes"),
            F.sort_array(F.collect_list(F.struct(*_FIELDS))).alias("changes"),
        )
    )
    begin = F.struct(
        F.col("before").alias("head"),
        F.when(F.col("before").isNull(), F.array())
        .otherwise(F.array(_life(F.lit(-1), F.col("before"))))
        .alias("lives"),
        F.array().alias("deletions"),
    ).cast(_STATE)
    if appends_only:
        # The appends of a journal are one change; nothing is written of a journal that has moved.
        end = _appended(begin, F.col("changes")[0], batch)
    else:
        end = F.aggregate("changes", begin, lambda state, change: _next(state, change, batch))
    results = changes.withColumn("end", end)
    parts = {name: F.col("end")[name] for name in ("head", "lives", "deletions")}
    return results.withColumns(parts).select(*FOLDED)


def _changes(actions: DataFrame, batch: ActionBatch, *, appends_only: bool) -> DataFrame:
    """Return the actions, with the appends between two others merged into one."""
    in_order = Window.partitionBy(*_JOURNAL).orderBy("offset")
    is_append = F.col("action") == ActionType.APPEND.value
    run = F.sum(F.when(is_append, 0).otherwise(1)).over(in_order)
    runs = actions.withColumn("run", F.lit(0) if appends_only else run)
    last = [F.max_by(name, "offset").alias(name) for name in ("to", "last_nr", "expire_after")]
    first = [F.min_by(name, "offset").alias(name) for name in ("first_nr", "origin")]
    merged = runs.groupBy(*_JOURNAL, "partition", "run", "action").agg(
        F.min("offset").alias("first_offset"),
        F.max("offset").alias("offset"),
        *last,
        *first,
        F.first("before").alias("before"),
        F.first("seen").alias("seen"),
        F.first("write_time_before").alias("write_time_before"),
        F.coalesce(F.sum("bytes"), F.lit(0).cast("bigint")).alias("bytes"),
    )
    unique_name = F.concat_ws("\0", "topic", "partition", "id", "first_offset")
    return merged.withColumns(
        {
            "expire_on": expire_on(F.lit(batch.at), F.col("expire_after"), batch.zone),
            "segment": columns.head_segment(F.col("id"), SEGMENTS),
            "record_id": _uuid(unique_name),
        }
    )


def _next(state: Column, change: Column, batch: ActionBatch) -> Column:
    """Return the state after a change."""
    action = change["action"]
    return (
        F.when(action == ActionType.APPEND.value, _appended(state, change, batch))
        .when(action == ActionType.DELETE.value, _deleted(state, change, batch))
        .otherwise(_purged(state, change))
    )


def _appended(state: Column, change: Column, batch: ActionBatch) -> Column:
    new = _new_head(
        change,
        batch,
        delete_to=F.when(change["first_nr"] > 1, change["first_nr"] - 1),
        record_id=change["record_id"],
    )
    after = _with(
        F.coalesce(state["head"], new),
        partition=change["partition"],
        offset=change["offset"],
        seq_nr=change["last_nr"],
        expire_after=change["expire_after"],
        expire_on=change["expire_on"],
    )
    return _state(after, _lives(state, after, change), state["deletions"])


def _deleted(state: Column, change: Column, batch: ActionBatch) -> Column:
    """Return the state after a delete, which creates a head if there is none.

    In an existing head `delete_to` may decrease, and `seq_nr` increase to an old `delete_to`.
    """
    head, to = state["head"], change["to"]
    old_to = F.coalesce(head["delete_to"], F.lit(0).cast("bigint"))
    seq_nr = F.greatest(head["seq_nr"], old_to)
    existing = _with(
        head,
        partition=change["partition"],
        offset=change["offset"],
        seq_nr=seq_nr,
        delete_to=F.least(to, seq_nr),
    )
    after = F.coalesce(existing, _new_head(change, batch, seq_nr=to, delete_to=to))
    up_to = F.least(to, head["seq_nr"])
    size = segment_size.of_column(head["segment_size"])
    deletion = _deletion(
        change["offset"],
        columns.journal_segment(old_to + 1, size),
        columns.journal_segment(up_to, size),
        F.when(up_to < head["seq_nr"], up_to),
        is_purge=False,
    )
    deletions = F.when(
        head.isNotNull() & (old_to + 1 <= up_to),
        F.concat(state["deletions"], F.array(deletion)),
    ).otherwise(state["deletions"])
    return _state(after, _lives(state, after, change), deletions)


def _purged(state: Column, change: Column) -> Column:
    """Return the state after a purge, which does nothing if there is no head.

    Rows that a purge or delete may have left in a crash are near `delete_to`, so the segments next
    to those of the events are deleted as well.
    """
    head = state["head"]
    seq_nr, to = head["seq_nr"], head["delete_to"]
    size = segment_size.of_column(head["segment_size"])
    low = F.when(to.isNull(), F.lit(1)).otherwise(F.least(seq_nr, to))
    high = F.greatest(seq_nr, to)
    first = columns.journal_segment(F.greatest(low, F.lit(1)), size)
    last = columns.journal_segment(F.greatest(high, F.lit(1)), size)
    deletion = _deletion(
        change["offset"],
        F.greatest(first - 1, F.lit(0).cast("bigint")),
        last + 1,
        F.lit(None),
        is_purge=True,
    )
    purged = _state(F.lit(None), state["lives"], F.concat(state["deletions"], F.array(deletion)))
    return F.when(head.isNull(), state).otherwise(purged)


def _lives(state: Column, head: Column, change: Column) -> Column:
    extended = F.concat(state["lives"], F.array(_life(change["first_offset"], head)))
    return F.when(state["head"].isNull(), extended).otherwise(state["lives"])


def _life(offset: Column, head: Column) -> Column:
    return F.struct(
        offset.cast("bigint").alias("offset"),
        segment_size.of_column(head["segment_size"]).alias("segment_size"),
        head["record_id"].alias("record_id"),
    ).cast(LIFE)


def _new_head(change: Column, batch: ActionBatch, **fields: Column) -> Column:
    """Return the head that a change creates; other fields are null."""
    fields = {
        **{name: change[name] for name in ("segment", "partition", "offset", "origin")},
        "segment_size": F.lit(batch.segment_size),
        "is_new": F.lit(True),
        **fields,
    }
    return F.struct(*(fields.get(name, F.lit(None)).alias(name) for name in HEAD_FIELDS)).cast(HEAD)


def _with(head: Column, **fields: Column) -> Column:
    """Return a head with other fields; null if the head is null."""
    for name, value in fields.items():
        head = head.withField(name, value)
    return head


def _deletion(
    offset: Column, first: Column, last: Column, up_to: Column, *, is_purge: bool
) -> Column:
    return F.struct(
        offset.alias("offset"),
        first.alias("first"),
        last.alias("last"),
        up_to.cast("bigint").alias("up_to"),
        F.lit(is_purge).alias("is_purge"),
    ).cast(DELETION)


def _state(head: Column, lives: Column, deletions: Column) -> Column:
    return F.struct(
        head.cast(HEAD).alias("head"), lives.alias("lives"), deletions.alias("deletions")
    ).cast(_STATE)


def _uuid(name: Column) -> Column:
    """Return the text of a version 3 UUID that follows from a name.

    kafka-journal draws a random one. A repeated task of Spark, and a run after a crash, must
    compute the same one.
    """
    digits = F.md5(name.cast("binary"))
    variant = F.element_at(
        F.array(*map(F.lit, "89ab")), F.conv(F.substring(digits, 17, 1), 16, 10).cast("int") % 4 + 1
    )
    return F.concat(
        F.substring(digits, 1, 8),
        F.lit("-"),
        F.substring(digits, 9, 4),
        F.lit("-3"),
        F.substring(digits, 14, 3),
        F.lit("-"),
        variant,
        F.substring(digits, 18, 3),
        F.lit("-"),
        F.substring(digits, 21, 12),
    )
