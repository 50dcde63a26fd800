"""verify: the differences between the topics and the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra.schema import create_own_tables
from tidemark.context import Outcome, PieceCounts, RunContext, RunState
from tidemark.errors import TidemarkError, TopicMoved, ValidationFailed, together
from tidemark.replicate.kafka.failures import kafka_in_one_line
from tidemark.text import counted
from tidemark.validate import run_findings, store
from tidemark.validate.findings.check import Layer
from tidemark.validate.layers.kafka_journal import checks as of_tables
from tidemark.validate.layers.kafka_journal import find as in_tables
from tidemark.validate.layers.kafka_topic import checks
from tidemark.validate.layers.kafka_topic.find import compare_twice
from tidemark.validate.layers.kafka_topic.topic_scope import TopicScope, judged_partitions
from tidemark.validate.layers.layer import FurtherLayer, with_layers
from tidemark.validate.reading.inspection import Keep, kept_frames, of_nothing
from tidemark.validate.shapes import FINDINGS
from tidemark.validate.stored_findings import FINDING

CHECKS = (*checks.CHECKS, of_tables.HIDDEN_EVENTS)
"""The checks of verify. Events hidden by a gap are missing from the topic, too, or were lost."""
REPAIRED = tuple(check.name for check in CHECKS if check.remedy == checks.BY_REPAIR)
"""The checks whose findings `repair` fixes as long as Kafka holds the records."""
_NAMED = 20


def run_verify(run: RunContext, topic_scope: TopicScope) -> Outcome:
    """Compare topics with tables, and end as FAILED with a `ValidationFailed` if they differ.

    No lock is taken: the replicator may run meanwhile. The findings replace earlier findings of the
    same topics; findings of a range are added. A topic partition that `replicate` refuses is not
    compared, and fails the run.
    """
    create_own_tables(run.control, run.settings)
    judged = judged_partitions(run, topic_scope)
    if not judged.bounds:
        nothing = Outcome(
            RunState.NOTHING, lines=["nothing of it is replicated and still in Kafka"]
        )
        return with_refused(nothing, judged.refused)
    topics = sorted({partition.topic for partition in judged.bounds})
    spans = {partition: offsets.span for partition, offsets in judged.bounds.items()}
    with kept_frames() as keep, kafka_in_one_line(run.settings, spans):
        comparison = compare_twice(run, keep, topic_scope, judged)

        def find(run: RunContext, keep: Keep) -> DataFrame:
            findings = comparison.findings.select(*FINDINGS)
            if topic_scope.is_everything:
                return findings.unionByName(_hidden(run, keep, topics))
            return findings

        layer = FurtherLayer(Layer.KAFKA_TOPIC, CHECKS, find)
        inspection = with_layers(run, of_nothing(run), [layer], keep)
        is_replaced = (
            F.col("check_name").isin([check.name for check in CHECKS])
            & F.col("tag").isin(topics)
            & F.lit(topic_scope.is_everything)
        )
        store.replace(run, inspection.findings, CHECKS, lambda stored: stored.where(is_replaced))
        findings = run_findings.read(run_findings.counted_of(inspection))
    by_check, lines = findings.per_check(), findings.lines()
    counts = {
        "events_compared": comparison.events,
        "events_not_judged": comparison.left,
        "findings": sum(by_check.values()),
        **by_check,
    }
    left_lines = left_line(comparison.left)
    if not by_check:
        line = (
            f"{counted(len(judged.bounds), 'topic partition')}: the tables hold what the topics say"
        )
        passed = Outcome(RunState.DONE, PieceCounts(1, 1), counts, [line, *left_lines])
        return with_refused(passed, judged.refused)
    error = _error(run, by_check, lines)
    failed = Outcome(
        RunState.FAILED, PieceCounts(1, failed=1), counts, [*lines, *left_lines], error
    )
    return with_refused(failed, judged.refused)


def left_line(events: int) -> list[str]:
    """Return the line that counts the events not judged, if there are any."""
    if not events:
        return []
    return [
        f"{counted(events, 'event')} whose records Kafka does not hold any more were not judged"
    ]


def with_refused(outcome: Outcome, refused: Sequence[TopicMoved]) -> Outcome:
    """Return an outcome, as failed if topic partitions were refused, with a line for each."""
    if not refused:
        return outcome
    errors = [*refused] if outcome.error is None else [*refused, outcome.error]
    error: TidemarkError = refused[0]
    if len(errors) > 1:
        error = together(
            "; ".join(map(str, errors[:_NAMED])), [cause.exit_status for cause in errors]
        )
    lines = [*map(str, refused[:_NAMED]), *outcome.lines]
    pieces = replace(
        outcome.pieces,
        planned=outcome.pieces.planned + len(refused),
        failed=outcome.pieces.failed + len(refused),
    )
    return replace(outcome, state=RunState.FAILED, pieces=pieces, lines=lines, error=error)


def _hidden(run: RunContext, keep: Keep, topics: list[str]) -> DataFrame:
    findings = in_tables.find(run, keep)
    is_hidden = F.col("check_name") == of_tables.HIDDEN_EVENTS.name
    return findings.where(is_hidden & F.col("tag").isin(topics)).select(*FINDINGS)


def _error(run: RunContext, by_check: Mapping[str, int], lines: list[str]) -> ValidationFailed:
    kinds = ", ".join(f"{count:,} {name}" for name, count in by_check.items())
    steps = [checks.BY_REPAIR] if not by_check.keys().isdisjoint(REPAIRED) else []
    unrepaired = [
        check for check in CHECKS if check.name in by_check and check.name not in REPAIRED
    ]
    steps += [f"{check.name}: {check.remedy}" for check in unrepaired]
    return ValidationFailed(
        f"{counted(sum(by_check.values()), 'finding')} ({kinds}); first: {lines[0]}",
        where=run.settings.kafka_journal_keyspace,
        do=f"see the table {run.settings.keyspace}.{FINDING}; {'; '.join(steps)}",
    )
