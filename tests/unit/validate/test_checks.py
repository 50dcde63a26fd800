"""What the objects of the checks state is what the code does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.unit.project.stored_history_frames import findings_of, keys_of
from tests.unit.project.stored_history_model import HOUR, START_MS, History
from tests.unit.reconcile.test_reconciliation import CASES, lost_events, lost_payloads
from tests.unit.validate.inspection_in_memory import inspected
from tests.unit.validate.test_incremental import bounds_of
from tidemark.journals.pekko.frames import placed
from tidemark.spark.local_rows import local_rows
from tidemark.validate.findings.all_findings import JournalKeys, number_findings, warnings
from tidemark.validate.findings.check import Inputs, Repair, Severity
from tidemark.validate.findings.checks import CHECKS
from tidemark.validate.findings.partition_size import sizes
from tidemark.validate.findings.tag_sequence import absent_events
from tidemark.validate.journal_wide import bucket_fit
from tidemark.validate.journal_wide import find as whole
from tidemark.validate.layers import all_layers
from tidemark.validate.tag_views.bounds import Bounds
from tidemark.validate.tag_views.expected import REMOVED
from tidemark.validate.tag_views.keys import Keys

HOURS = [START_MS + hour * HOUR for hour in range(32)]
LARGE = 60 << 20
"""Bytes of a row, two of which are too much for a partition."""


def names(findings: DataFrame) -> set[str]:
    return {row["check_name"] for row in findings.select("check_name").distinct().collect()}


def numbers_as_they_are(keys: Keys, bounds: Bounds) -> DataFrame:
    """Return the findings of numbers without any difference put right before."""
    deleted = keys.deleted.where(F.col("deleted_to") < REMOVED)
    stored = JournalKeys(
        keys.index,
        keys.index,
        keys.rows,
        placed(keys.progress, bounds.bucket_size),
        keys.scanning,
        deleted,
        keys.listed,
        unwritable=keys.index.where(F.col("cause").isNotNull()),
    )
    absent = absent_events(keys.index, keys.rows, bounds.removed, bounds.pending)
    return number_findings(
        stored, absent, bounds.removed, bounds.last_bucket, bounds.target_partition_size
    )


def test_an_examination_of_new_time_buckets_makes_the_checks_that_state_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_fit, "BUCKETS_ADVISED", 20)
    three = History.whole((1, "a"), (2, "a"), (3, "a"))
    deleted = three.deleted(3)
    first, second, third = (three.row("a", number) for number in (1, 2, 3))
    journal = {
        **{name: history for name, (history, _) in CASES.items()},
        **lost_payloads(),
        **lost_events(),
        "clocks disagree": History.whole((5, "a"), (4, "a")),
        "far apart": History.whole((1, "z"), (31, "z")),
        "two in one hour": History.whole((1, "y"), (1.5, "y")),
        "first row missing": three.without_rows(first),
        "last row missing": three.without_rows(third),
        "rows of deleted events in another order": deleted.without_rows(first, second).with_rows(
            first._replace(number=2), second._replace(number=1)
        ),
        "in another partition": replace(three, misplaced=frozenset({1})),
    }
    lives = {name: (History(), history) for name, history in journal.items()}
    bounds = bounds_of(frozenset(), HOURS)
    keys = keys_of(spark, journal)
    snapshots = local_rows(
        spark, [("far apart", 9, 0)], "persistence_id string, snapshot_nr bigint, epoch_ms bigint"
    )
    partitions = sizes(keys.rows)

    compared: dict[str, set[str]] = {}
    for finding in findings_of(spark, journal, bounds):
        compared.setdefault(finding["check_name"], set()).add(finding["persistence_id"])
    for row in numbers_as_they_are(keys, bounds).collect():
        compared.setdefault(row["check_name"], set()).add(row["persistence_id"])
    advice = names(warnings(keys.index, partitions, bounds.bucket_size, LARGE, HOURS)) | names(
        whole.find(keys.index, keys.deleted, snapshots, partitions, bounds.bucket_size, LARGE)
    )
    suspects, warned = inspected(spark, lives, HOURS, row_bytes=LARGE)
    in_new = {name for name, ids in compared.items() if ids <= suspects}
    in_new |= names(warned)

    assert compared.keys() | advice == {check.name for check in CHECKS}
    assert in_new == {check.name for check in CHECKS if check.inputs is not Inputs.JOURNAL}


def test_what_blocks_has_a_remedy() -> None:
    blocking = [
        check for check in (*CHECKS, *all_layers.CHECKS) if check.severity is Severity.BLOCKS
    ]
    assert [check.name for check in blocking if not check.remedy] == []


def test_each_repair_is_that_of_some_check() -> None:
    assert {check.remedy for check in CHECKS if check.is_repairable} == {*Repair}
