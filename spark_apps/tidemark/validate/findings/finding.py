"""The shape of a finding, and the counts of the findings of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.findings.check import Check
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET, bucket_text

SCHEMA = (
    "time_bucket bigint, check_name string, persistence_id string, tag string, number bigint,"
    " expected bigint, detail string"
)
KEY = ("time_bucket", "check_name", "persistence_id", "tag", "number")
SETTLEMENTS_SCHEMA = (
    "check_name string, persistence_id string, tag string, number bigint, expected bigint,"
    " reason string, owner string"
)


@dataclass(frozen=True)
class FindingRule:
    """The condition that makes a row a finding, and the values of the finding.

    Attributes:
        check: the check of the finding.
        is_broken: whether the row is a finding; null means no.
        number: the number that the row has.
        expected: the number that the row should have; may be null.
        detail: a clause for people.
    """

    check: Check
    is_broken: Column
    number: Column
    expected: Column
    detail: Column


@shaped(rows=shapes.CHECKED, returns=shapes.FINDINGS)
def findings_of(rows: DataFrame, rules: Sequence[FindingRule]) -> DataFrame:
    """Return a finding for each rule that a row breaks, in one pass over the rows.

    A finding has the values of the row in columns of EVIDENCE.
    """
    broken = [
        F.when(
            rule.is_broken,
            F.struct(
                F.lit(rule.check.name).alias("check_name"),
                rule.number.cast("bigint").alias("number"),
                rule.expected.cast("bigint").alias("expected"),
                rule.detail.alias("detail"),
            ),
        )
        for rule in rules
    ]
    tag = F.col("tag") if "tag" in rows.columns else F.lit("")
    evidence = [
        (F.col(name) if name in rows.columns else F.lit(None)).cast(kind).alias(name)
        for name, kind in shapes.EVIDENCE.items()
    ]
    return rows.select(
        "time_bucket",
        "persistence_id",
        tag.alias("tag"),
        *evidence,
        F.explode(F.array_compact(F.array(*broken))).alias("finding"),
    ).select("time_bucket", "persistence_id", "tag", "finding.*", *shapes.EVIDENCE)


@shaped(findings=shapes.FINDINGS, returns={**shapes.FINDINGS, **shapes.EVIDENCE})
def with_evidence(findings: DataFrame) -> DataFrame:
    """Add the missing columns of EVIDENCE as null."""
    missing = {name: kind for name, kind in shapes.EVIDENCE.items() if name not in findings.columns}
    return findings.withColumns({name: F.lit(None).cast(kind) for name, kind in missing.items()})


@shaped(returns=shapes.FINDINGS)
def of_buckets(parts: Sequence[DataFrame], buckets: Iterable[int]) -> DataFrame:
    """Return all findings of the time buckets, one for each KEY."""
    return one_of_each(within(reduce(DataFrame.unionByName, parts), buckets))


@shaped(findings=shapes.FINDINGS, returns=shapes.FINDINGS)
def one_of_each(findings: DataFrame) -> DataFrame:
    """Return one finding for each KEY: two rules of a check can find the same number."""
    return (
        findings.groupBy(*KEY)
        .agg(
            F.min("expected").alias("expected"),
            F.min("detail").alias("detail"),
            F.min(F.struct(*shapes.EVIDENCE)).alias("evidence"),
        )
        .select(*KEY, "expected", "detail", "evidence.*")
    )


@shaped(rows=shapes.PLACED, returns=shapes.PLACED)
def within(rows: DataFrame, buckets: Iterable[int]) -> DataFrame:
    """Return the rows in the time buckets, epoch ms, with their columns."""
    spark = rows.sparkSession
    wanted = local_rows(spark, [(bucket,) for bucket in sorted(buckets)], "time_bucket bigint")
    return rows.join(F.broadcast(wanted), on="time_bucket", how="left_semi")


@shaped(findings=shapes.FINDINGS, settlements=shapes.SETTLEMENTS, returns=shapes.WEIGHED)
def weighed(findings: DataFrame, settlements: DataFrame) -> DataFrame:
    """Add the reason and owner of each settled finding; null in open findings.

    A settlement applies only to the settled numbers: if more numbers are missing now, the finding
    is open.
    """
    conditions = [
        F.col(f"f.{name}").eqNullSafe(F.col(f"s.{name}"))
        for name in ("check_name", "persistence_id", "tag", "number", "expected")
    ]
    return (
        findings.alias("f")
        .join(F.broadcast(settlements).alias("s"), on=conditions, how="left")
        .select("f.*", "s.reason", "s.owner")
    )


def line(row: Mapping[str, Any], subject: str = "tag") -> str:
    """Return a finding as a line for people; `subject` is its check's."""
    words = [row["persistence_id"], f"{subject} {row['tag']}" if row["tag"] else ""]
    bucket = row["time_bucket"]
    bucket_clause = "" if bucket == NO_TIME_BUCKET else f" in bucket {bucket_text(bucket)}"
    return f"{row['check_name']}: {' '.join(filter(None, words))}: {row['detail']}{bucket_clause}"


@shaped(findings=shapes.FINDINGS)
def first_lines(findings: DataFrame, most: int, subject: str = "tag") -> list[str]:
    """Return the first `most` findings by KEY as lines for people."""
    rows = findings.orderBy(*KEY).limit(most + 1).collect()
    lines = [line(row.asDict(), subject) for row in rows[:most]]
    return [*lines, "and more"] if len(rows) > most else lines


@shaped(findings=shapes.FINDINGS)
def counts(findings: DataFrame) -> dict[tuple[int, str], int]:
    """Count the findings by time bucket and check, without zeros."""
    rows = (
        findings.groupBy("time_bucket", "check_name").agg(F.count("*").alias("findings")).collect()
    )
    return {(row["time_bucket"], row["check_name"]): row["findings"] for row in rows}


@shaped(rows=shapes.PLACED)
def rows_by_bucket(rows: DataFrame, buckets: Iterable[int]) -> dict[int, int]:
    """Count the rows in each of the time buckets, without zeros.

    If there is a column `rows`, it is the number of rows that a row stands for.
    """
    number = F.sum("rows") if "rows" in rows.columns else F.count("*")
    counted = within(rows.groupBy("time_bucket").agg(number.alias("number")), buckets).collect()
    return {row["time_bucket"]: row["number"] for row in counted}
