"""Previews a projection's result on a sample of events, without writing."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.context import RunContext
from tidemark.errors import TidemarkError
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.definition.model import Definition
from tidemark.project.planning.plan import ProjectionPlan
from tidemark.project.sources import event_source
from tidemark.project.testing import evaluate
from tidemark.project.transformation import result_checks, transform
from tidemark.project.transformation.filled_fields import FilledFields
from tidemark.project.transformation.row_key import RowKey
from tidemark.project.writing import write as modes
from tidemark.project.writing.target import lacks_table, proposed_key
from tidemark.spark import gateway
from tidemark.tag_write import rules
from tidemark.window import from_millis

SAMPLE = 1000
"""Most rows to read from the source for the time bucket that is shown."""
_OTHERS = 100
"""Most rows to read from other time buckets."""
_CAUSES = 5
_WIDTH = 40


def sample(
    run: RunContext, plan: ProjectionPlan, analyzed: AnalyzedDefinition | None, rows: int
) -> list[str]:
    """Return the first rows of the result over a sample of one time bucket, as a table for reports.

    The sample is the first SAMPLE rows of a planned time bucket that has events; an event has a row
    for each of its tags. So sums are those of the sample. No fold begins with a state or snapshot.
    With events of other time buckets, this also checks that the result does not depend on how runs
    divide the events. `analyzed` is None if all planned time buckets are held.
    """
    name = plan.definition.name
    if analyzed is None:
        return [f"{name}: every planned time bucket is held"]
    source = event_source(run, plan.definition, plan.slices)
    planned = source.rows(plan.time_buckets)
    # Collected, since a limit within a plan would read every partition of the source.
    first_rows = planned.select("time_bucket").take(1)
    if not first_rows:
        return [f"{name}: no events in the planned time buckets"]
    bucket = first_rows[0].time_bucket
    sample_rows = source.rows([bucket]).take(SAMPLE)
    other_rows = planned.where(F.col("time_bucket") != bucket).take(_OTHERS)
    decoded = _decoded(run, analyzed, sample_rows, planned.schema)
    result, failed = evaluate.result(analyzed, decoded)
    return [
        f"{name}: {decoded.count()} events of {from_millis(bucket):%Y-%m-%d %H:%M},"
        f" the first {rows} rows of the result",
        *_unreadable(failed),
        *_absent_fields(decoded),
        *_absent_tags(run, plan.definition),
        *_failing(run, analyzed, result, bucket),
        *_divided(analyzed, _decoded(run, analyzed, [*sample_rows, *other_rows], planned.schema)),
        *table_lines(result, rows),
    ]


def _decoded(
    run: RunContext, analyzed: AnalyzedDefinition, rows: Sequence[Row], schema: T.StructType
) -> DataFrame:
    return evaluate.decoded(analyzed, run.spark.createDataFrame(rows, schema))


def _divided(analyzed: AnalyzedDefinition, decoded: DataFrame) -> list[str]:
    result, _ = evaluate.result(analyzed, decoded)
    try:
        evaluate.require_same_divided(analyzed, decoded, result)
    except TidemarkError as error:
        return [f"  the result depends on how runs are divided: {error.what}; {error.do}"]
    return []


def _unreadable(failed: DataFrame) -> list[str]:
    return [
        f"  cannot be processed: {row.persistence_id} {row.sequence_nr}, {row.cause}"
        for row in failed.orderBy("persistence_id", "sequence_nr").take(_CAUSES)
    ]


def _absent_fields(decoded: DataFrame) -> list[str]:
    """Return warnings for declared fields that no payload of the sample has."""
    counts = transform.counts_by_bucket(decoded).collect()
    return [f"  {doubt}" for doubt in FilledFields.of(counts).doubts("the whole sample")]


def _absent_tags(run: RunContext, definition: Definition) -> list[str]:
    if not definition.source.reads_tag_views:
        return []
    tags = set(definition.source.series_tags)
    absent = sorted(tags - rules.written_tags(run.control, run.settings, tags))
    return [f"  no event has the tag {tag}: is it spelt as the actors spell it?" for tag in absent]


def _failing(
    run: RunContext, analyzed: AnalyzedDefinition, result: DataFrame, bucket: int
) -> list[str]:
    """Return the errors and warnings of a run, for the key that the table has or should get."""
    definition, mode = analyzed.definition, modes.MODES[analyzed.definition.mode]
    is_missing = lacks_table(run, definition)
    key = proposed_key(analyzed) if is_missing else RowKey.of(run, definition)
    rows = mode.rows_of(result, definition)
    lines = []
    try:
        mode.count(rows, definition, key, [bucket])
    except TidemarkError as error:
        lines.append(f"  a run would fail: {error.what}; {error.do}")
    return [
        *lines,
        *(
            f"  {'check fails' if finding.check.is_blocking else 'warning'}: {finding}"
            for finding in result_checks.examine(
                transform.stored(rows), definition.checks, key.columns or list(mode.required)
            )
        ),
    ]


def table_lines(result: DataFrame, rows: int) -> list[str]:
    """Return the first rows of a result as a table for reports."""
    text: str = gateway.dataset(result).showString(rows, _WIDTH, False)
    return text.splitlines()
