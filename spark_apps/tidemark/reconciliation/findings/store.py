"""Findings for people: the table `tag_view_finding`, and a few of them as lines."""

from __future__ import annotations

from typing import cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.reconciliation.findings import kinds
from tidemark.settings import Settings
from tidemark.spark.shapes import shaped
from tidemark.window import from_millis, iso

TABLE = "tag_view_finding"
EXAMPLES = 10
_NO_TIMEUUID = "00000000-0000-1000-8000-000000000000"


@shaped(findings=kinds.COLUMNS)
def store(findings: DataFrame, settings: Settings, run_id: str) -> None:
    """Write them under the run's id; they expire by the table's TTL."""
    rows = findings.withColumns(
        {
            "run_id": F.lit(run_id),
            "journal_keyspace": F.lit(settings.journal_keyspace),
            # Parts of the key: where nothing is stored, what should be.
            "time_bucket": F.coalesce("time_bucket", "expected_time_bucket", F.lit(0)),
            "number": F.coalesce("number", "expected_number", F.lit(0)),
            "timestamp": F.coalesce("timestamp", F.lit(_NO_TIMEUUID)),
        }
    )
    connector.write(rows, settings.keyspace, TABLE)


@shaped(findings=kinds.COLUMNS)
def examples(findings: DataFrame) -> list[str]:
    """Return the first findings as lines for reports."""
    order = ["kind", "persistence_id", "tag", "sequence_nr", "number"]
    return [_line(row.asDict()) for row in findings.orderBy(*order).limit(EXAMPLES).collect()]


def _line(finding: dict[str, object]) -> str:
    where = f"{finding['kind']}: {finding['persistence_id']}"
    if finding["tag"]:
        where += f", tag {finding['tag']}"
    if finding["kind"] in kinds.OF_CONTINUITY:
        return f"{where}: {_discontinuity(finding)}"
    return f"{where}, sequence nr {finding['sequence_nr']}: {_difference(finding)}"


def _difference(finding: dict[str, object]) -> str:
    kind = finding["kind"]
    if kind in kinds.OF_PROGRESS:
        stands = "no progress" if finding["number"] is None else f"number {finding['number']}"
        if finding["expected_sequence_nr"] is None:
            return f"{stands}, expected no progress"
        return (
            f"{stands}, expected number {finding['expected_number']}"
            f" at sequence nr {finding['expected_sequence_nr']}"
        )
    if kind == kinds.SCANNING_AHEAD:
        if finding["tag"]:
            return f"sequence nr {finding['expected_sequence_nr']} has no row"
        return f"the last sequence nr is {finding['expected_sequence_nr'] or 'unknown'}"
    stored = _place(finding["number"], finding["time_bucket"])
    expected = _place(finding["expected_number"], finding["expected_time_bucket"])
    return f"{stored or 'no row'}, expected {expected or 'none'}"


def _discontinuity(finding: dict[str, object]) -> str:
    is_of_tag = finding["number"] is not None
    name = "tag pid sequence nr" if is_of_tag else "sequence nr"
    number = finding["number"] if is_of_tag else finding["sequence_nr"]
    expected = finding["expected_number" if is_of_tag else "expected_sequence_nr"]
    text = f"{name} {number}"
    if expected not in (None, number):
        text += f", expected {expected}"
    return f"{text} {_bucket(finding['time_bucket'])}"


def _place(number: object, time_bucket: object) -> str:
    if number is None or time_bucket is None:
        return ""
    return f"number {number} {_bucket(time_bucket)}"


def _bucket(time_bucket: object) -> str:
    return f"in time bucket {iso(from_millis(cast('int', time_bucket)))}"
