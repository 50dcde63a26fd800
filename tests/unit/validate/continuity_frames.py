"""Histories of `continuity_model` as frames, and what `validate` finds in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from tests.unit.validate.continuity_model import Found, History
from tidemark.ledger.purged import Removed
from tidemark.spark.local_rows import local_rows
from tidemark.validate.findings import finding
from tidemark.validate.findings.all_findings import JournalKeys, number_findings
from tidemark.validate.findings.tag_sequence import absent_events
from tidemark.validate.plan import PendingTagWrites

TIMESTAMP = "t"
TARGET_PARTITION_SIZE = 2


def found_by_spark(
    spark: SparkSession,
    histories: Mapping[str, History],
    removed: Removed,
    pending: PendingTagWrites,
    buckets: Sequence[int],
) -> dict[str, set[Found]]:
    """Return the findings of `number_findings` by persistence id, all from one Spark job."""
    keys = keys_of(spark, histories)
    absent = absent_events(keys.index, keys.rows, removed, pending)
    findings: dict[str, set[Found]] = {persistence_id: set() for persistence_id in histories}
    found = number_findings(keys, absent, removed, max(buckets), TARGET_PARTITION_SIZE)
    for row in finding.of_buckets([found], buckets).collect():
        findings[row.persistence_id].add(
            (row.check_name, row.tag, row.number, row.expected, row.time_bucket)
        )
    return findings


def keys_of(spark: SparkSession, histories: Mapping[str, History]) -> JournalKeys:
    """Return the histories of many persistence ids as the frames that a run reads.

    A tag-view row's timestamp is made of its time bucket, its event and its `copy`.
    """
    items = histories.items()

    def frame(rows: list[tuple[object, ...]], *columns: str) -> DataFrame:
        schema = ", ".join(["persistence_id string", *columns])
        return local_rows(spark, rows, schema)

    index = frame(
        [
            (
                *(pid, e.number, TIMESTAMP, e.bucket * 10 + e.copy, e.bucket, [*e.tags] or None),
                # The first row of a pair is in its own partition, the second in the next one.
                (e.number - 1) // 2 + (-1 if e.is_misplaced else (e.number - 1) % 2),
                not e.is_empty,
            )
            for pid, history in items
            for e in history.events
        ],
        "sequence_nr bigint",
        "timestamp string",
        "ticks bigint",
        "time_bucket bigint",
        "tags array<string>",
        "partition_nr bigint",
        "has_payload boolean",
    )
    rows = frame(
        [
            (
                pid,
                r.tag,
                r.event,
                r.number,
                f"{r.bucket} {r.event} {r.copy}",
                r.bucket * 10 + r.copy,
                r.bucket,
            )
            for pid, history in items
            for r in history.rows
        ],
        "tag string",
        "sequence_nr bigint",
        "tag_pid_sequence_nr bigint",
        "timestamp string",
        "ticks bigint",
        "time_bucket bigint",
    )
    deleted = frame(
        [(pid, h.deleted_to) for pid, h in items if h.deleted_to is not None], "deleted_to bigint"
    )
    progress = frame(
        [
            (pid, tag, *position)
            for pid, history in items
            for tag, position in history.progress.items()
        ],
        "tag string",
        "progress_sequence_nr bigint",
        "progress_number bigint",
        "progress_bucket bigint",
    )
    scanning = frame(
        [(pid, h.scanned_to) for pid, h in items if h.scanned_to is not None],
        "scanned_to bigint",
    )
    return JournalKeys(
        index=index,
        placed=index,
        rows=rows,
        progress=progress,
        scanning=scanning,
        deleted=deleted,
        listed=frame([(pid,) for pid, h in items if h.is_listed]),
        unwritable=frame(
            [
                (pid, e.number, TIMESTAMP, e.bucket, "no payload")
                for pid, history in items
                for e in history.events
                if e.is_unwritable
            ],
            "sequence_nr bigint",
            "timestamp string",
            "time_bucket bigint",
            "cause string",
        ),
    )
