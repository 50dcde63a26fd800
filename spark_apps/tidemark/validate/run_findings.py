"""The findings of a run: counts, examples and remedies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.errors import Remedy, ValidationFailed
from tidemark.ledger import applications
from tidemark.spark.shapes import shaped
from tidemark.text import counted
from tidemark.validate import shapes
from tidemark.validate.data_docs.facts import CheckFacts, SettledFacts, ValidationFacts, Way
from tidemark.validate.findings import finding
from tidemark.validate.findings.check import Check, Severity
from tidemark.validate.findings.checks import REPAIRABLE
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET, bucket_text
from tidemark.validate.reading.inspection import READ_COUNTS, Inspection
from tidemark.validate.stored_findings import FINDING

EXAMPLES = 20
IDS_NAMED = 10
"""The largest number of persistence ids that a repair names; more are repaired by findings."""


@dataclass(frozen=True)
class RunFindings:
    """The findings of a run and the numbers of rows that it read.

    Attributes:
        inspection: the inspection that gave the findings.
        by_check: number of open findings that block by time bucket and check.
        warned: the same for findings that warn.
        settled: the same for settled findings.
        checks: the checks with findings that block or warn.
        ids: the first IDS_NAMED + 1 persistence ids with repairable findings, ascending.
        settled_facts: the settled findings; None if there are none.
    """

    inspection: Inspection
    by_check: Mapping[tuple[int, str], int]
    warned: Mapping[tuple[int, str], int]
    settled: Mapping[tuple[int, str], int]
    checks: Mapping[str, CheckFacts] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    settled_facts: SettledFacts | None = None

    @property
    def all_checks(self) -> Sequence[Check]:
        """All checks, users' checks last."""
        return self.inspection.checks

    def of_bucket(self, bucket: int) -> dict[str, int]:
        """Return the counts of a time bucket (epoch ms) for the ledger."""
        return self._numbers(lambda where: where == bucket)

    def totals(self) -> dict[str, int]:
        """Return the counts of the run for the report."""
        return self._numbers(lambda _: True)

    def per_check(self) -> dict[str, int]:
        """Return the number of blocking findings of each check that has any."""
        return self._by_name(self.by_check, lambda _: True)

    def _numbers(self, is_counted: Callable[[int], bool]) -> dict[str, int]:
        """Return the counts of some time buckets, without those of warnings if there are none."""
        checks, warned, settled = (
            self._by_name(counts, is_counted)
            for counts in (self.by_check, self.warned, self.settled)
        )
        read = {
            name: sum(rows for bucket, rows in by_bucket.items() if is_counted(bucket))
            for name, by_bucket in self.inspection.read_counts.items()
        }
        return {
            **read,
            "findings": sum(checks.values()),
            **checks,
            **({"warnings": sum(warned.values()), **warned} if warned else {}),
            **({"settled_findings": sum(settled.values())} if settled else {}),
        }

    def _by_name(
        self, counts: Mapping[tuple[int, str], int], is_counted: Callable[[int], bool]
    ) -> dict[str, int]:
        total: Counter[str] = Counter()
        for (bucket, name), count in counts.items():
            total[name] += count if is_counted(bucket) else 0
        return {check.name: total[check.name] for check in self.all_checks if total[check.name]}

    def lines(self) -> list[str]:
        """Return the first findings by key as lines for people, then the first warnings."""
        checks_by_name = {check.name: check for check in self.all_checks}
        rows = [
            {**row, "check_name": name, "warns": checks_by_name[name].severity is Severity.WARNS}
            for name, check in self.checks.items()
            for row in check.examples
        ]
        sort_key = ("warns", *finding.KEY, "detail")
        rows.sort(key=lambda row: tuple(row[name] for name in sort_key))
        return [
            f"{'warning: ' if row['warns'] else ''}"
            f"{finding.line(row, checks_by_name[row['check_name']].subject)}"
            for row in rows[:EXAMPLES]
        ]

    def bad_buckets(self) -> set[int]:
        """Return the time buckets with findings, epoch ms."""
        return {bucket for bucket, _ in self.by_check} - {NO_TIME_BUCKET}

    def held(self, failed: Collection[int]) -> dict[int, str]:
        """Return why time buckets wait that have not failed, by time bucket (epoch ms)."""
        return {bucket: why for bucket, why in self.inspection.held.items() if bucket not in failed}

    def failed(self, checked: Collection[int]) -> set[int]:
        """Return the time buckets that do not pass: all of them if a further layer blocks."""
        blocks_all = any(bucket == NO_TIME_BUCKET for bucket, _ in self.by_check)
        return set(checked) if blocks_all else self.bad_buckets()


def counted_of(inspection: Inspection) -> RunFindings:
    """Return the counts of an inspection's findings; `read` adds the other attributes."""
    is_open = F.col("reason").isNull()
    return RunFindings(
        inspection,
        finding.counts(inspection.findings.where(is_open)),
        finding.counts(inspection.warnings),
        finding.counts(inspection.findings.where(~is_open)),
    )


def read(numbers: RunFindings) -> RunFindings:
    """Return counted findings with their checks, examples and persistence ids."""
    inspection = numbers.inspection
    subjects = {check.name: check.subject for check in inspection.checks}
    checks = _checks(inspection.warnings, subjects) if numbers.warned else {}
    is_open = F.col("reason").isNull()
    settled = inspection.findings.where(~is_open)
    settled_facts = _settled_facts(settled, subjects) if numbers.settled else None
    if not numbers.by_check:
        return replace(numbers, checks=checks, settled_facts=settled_facts)
    findings = inspection.findings.where(is_open).drop("reason", "owner")
    checks = {**_checks(findings, subjects), **checks}
    return replace(numbers, checks=checks, ids=_first_ids(findings), settled_facts=settled_facts)


def facts(run: RunContext, findings: RunFindings, checked: Collection[int]) -> ValidationFacts:
    """Return the facts for the page of the run, which checked these time buckets (epoch ms)."""
    events, tag_rows = (sum(findings.inspection.read_counts[name].values()) for name in READ_COUNTS)
    return ValidationFacts(
        run.run_id,
        bucket_text(min(checked, default=NO_TIME_BUCKET)),
        bucket_text(max(checked, default=NO_TIME_BUCKET)),
        run.settings.bucket_size.value,
        findings.inspection.line(),
        events,
        tag_rows,
        findings.checks,
        [_way(findings, remedy) for remedy in _remedies(findings)],
        f"{run.settings.keyspace}.{FINDING}",
        findings.settled_facts,
        findings.inspection.layers,
    )


def failure(
    run: RunContext, findings: RunFindings, checked: int, page: Path | None
) -> ValidationFailed:
    """Return the error of a run with findings that has checked so many time buckets.

    `page`: the page of the run in Data Docs, if there is one.
    """
    per_check = findings.per_check()
    counts_text = ", ".join(f"{count:,} {name}" for name, count in per_check.items())
    remedies = _remedies(findings)
    ways = "; ".join(str(_way(findings, remedy)) for remedy in remedies)
    bad_buckets = findings.bad_buckets()
    bucket_clause = f" in {len(bad_buckets)} of {counted(checked, 'bucket')}" if bad_buckets else ""
    return ValidationFailed(
        f"{counted(sum(per_check.values()), 'finding')}{bucket_clause} ({counts_text}); first:"
        f" {findings.lines()[0]}",
        where=run.settings.journal_keyspace,
        do=f"see {f'{page} and ' if page else ''}the table {run.settings.keyspace}.{FINDING};"
        f" {ways}, then run validate again",
        remedy=remedies[0],
    )


def _remedies(findings: RunFindings) -> tuple[Remedy, ...]:
    """Return the remedies for the findings, the most effective first."""
    names = findings.per_check().keys()
    scope = (
        {"persistence-id": findings.ids}
        if len(findings.ids) <= IDS_NAMED
        else {"from-findings": True}
    )
    repair = Remedy(applications.RECONCILE, "repair", scope)
    to_settle = [
        check.name for check in findings.all_checks if check.name in names and check.for_people
    ]
    return (
        *((repair,) if names & REPAIRABLE else ()),
        *(_settlement(name, findings.checks[name]) for name in to_settle),
    )


def _settlement(check: str, facts: CheckFacts) -> Remedy:
    """Return the settlement of the only finding of a check, or of all its findings."""
    options: dict[str, object] = {"check": check}
    if facts.findings == 1:
        [example] = facts.examples
        key = ("persistence-id", "persistence_id") if example["persistence_id"] else ("tag", "tag")
        options |= {key[0]: example[key[1]], "number": example["number"]}
    return Remedy(applications.RECONCILE, "settle", options)


def _way(findings: RunFindings, remedy: Remedy) -> Way:
    if remedy.command != "settle":
        return Way("put right what the journal tells", f"{remedy} --apply")
    name = str(remedy.options["check"])
    [check] = [check for check in findings.all_checks if check.name == name]
    return Way(check.for_people, f"{remedy} --reason ...", name)


@shaped(findings=shapes.FINDINGS)
def _checks(findings: DataFrame, subjects: Mapping[str, str]) -> dict[str, CheckFacts]:
    """Return each check with findings, with its first EXAMPLES by key, and its subject."""
    rank = F.row_number().over(SparkWindow.partitionBy("check_name").orderBy(*finding.KEY))
    examples: dict[str, list[dict[str, object]]] = {}
    for row in findings.withColumn("place", rank).where(F.col("place") <= EXAMPLES).collect():
        fields = row.asDict()
        fields.pop("place")
        examples.setdefault(fields.pop("check_name"), []).append(fields)
    totals = findings.groupBy("check_name").agg(
        F.count("*").alias("findings"),
        F.countDistinct(F.when(F.col("persistence_id") != "", F.col("persistence_id"))).alias(
            "persistence_ids"
        ),
    )
    return {
        row["check_name"]: CheckFacts(
            row["findings"],
            row["persistence_ids"],
            examples[row["check_name"]],
            subjects[row["check_name"]],
        )
        for row in totals.orderBy("check_name").collect()
    }


@shaped(settled=shapes.WEIGHED)
def _settled_facts(settled: DataFrame, subjects: Mapping[str, str]) -> SettledFacts:
    """Return the number of settled findings, and the first EXAMPLES by key with their subjects."""
    first = [row.asDict() for row in settled.orderBy(*finding.KEY).limit(EXAMPLES).collect()]
    examples = [{**row, "subject": subjects[row["check_name"]]} for row in first]
    return SettledFacts(settled.count(), examples)


def _first_ids(findings: DataFrame) -> list[str]:
    repairable = findings.where(F.col("check_name").isin(*sorted(REPAIRABLE)))
    ids = repairable.select("persistence_id").distinct().orderBy("persistence_id")
    return [row["persistence_id"] for row in ids.limit(IDS_NAMED + 1).collect()]
