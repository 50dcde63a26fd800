"""A projection tried on a sample: what it makes of some events. Nothing is written."""

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
"""Rows that are read of the source, at most."""
_OTHERS = 100
"""Rows of other time buckets that are read as well, at most."""
_CAUSES = 5
_WIDTH = 40


def sample(
    run: RunContext, plan: ProjectionPlan, checked: AnalyzedDefinition | None, rows: int
) -> list[str]:
    """Return the first rows of the result over a sample of one time bucket, as a table for reports.

    The bucket is one of the plan's that has events. Its first SAMPLE rows are read, an event of
    several tags having one for each, so that a sum over the bucket is one over the sample.
    A fold begins without a state, and nothing with a snapshot. With some events of other buckets
    it is compared whether the result depends on how runs are divided.

    Args:
        run: the context of the run.
        plan: of the projection.
        checked: its definition as Spark understands it; None if all of its pieces are held.
        rows: how many rows to show.
    """
    name = plan.definition.name
    if checked is None:
        return [f"{name}: every planned time bucket is held"]
    source = event_source(run, plan.definition, plan.slices)
    planned = source.rows(plan.time_buckets)
    # Collected, since a limit within a plan would have every partition of the source read.
    first = planned.select("time_bucket").take(1)
    if not first:
        return [f"{name}: no events in the planned time buckets"]
    bucket = first[0].time_bucket
    sampled = source.rows([bucket]).take(SAMPLE)
    others = planned.where(F.col("time_bucket") != bucket).take(_OTHERS)
    decoded = _decoded(run, checked, sampled, planned.schema)
    result, failed = evaluate.result(checked, decoded)
    return [
        f"{name}: {decoded.count()} events of {from_millis(bucket):%Y-%m-%d %H:%M},"
        f" the first {rows} rows of the result",
        *_unreadable(failed),
        *_absent_fields(decoded),
        *_absent_tags(run, plan.definition),
        *_failing(run, checked, result, bucket),
        *_divided(checked, _decoded(run, checked, [*sampled, *others], planned.schema)),
        *table_lines(result, rows),
    ]


def _decoded(
    run: RunContext, checked: AnalyzedDefinition, rows: Sequence[Row], schema: T.StructType
) -> DataFrame:
    return evaluate.decoded(checked, run.spark.createDataFrame(rows, schema))


def _divided(checked: AnalyzedDefinition, decoded: DataFrame) -> list[str]:
    result, _ = evaluate.result(checked, decoded)
    try:
        evaluate.require_same_divided(checked, decoded, result)
    except TidemarkError as error:
        return [f"  the result depends on how runs are divided: {error.what}; {error.do}"]
    return []


def _unreadable(failed: DataFrame) -> list[str]:
    return [
        f"  cannot be processed: {row.persistence_id} {row.sequence_nr}, {row.cause}"
        for row in failed.orderBy("persistence_id", "sequence_nr").take(_CAUSES)
    ]


def _absent_fields(decoded: DataFrame) -> list[str]:
    """Name declared fields that no payload of the sample has."""
    counts = transform.counts_by_bucket(decoded).collect()
    return [f"  {doubt}" for doubt in FilledFields.of(counts).doubts("the whole sample")]


def _absent_tags(run: RunContext, definition: Definition) -> list[str]:
    if not definition.source.reads_tag_views:
        return []
    tags = set(definition.source.series_tags)
    absent = sorted(tags - rules.written_tags(run.control, run.settings, tags))
    return [f"  no event has the tag {tag}: is it spelt as the actors spell it?" for tag in absent]


def _failing(
    run: RunContext, checked: AnalyzedDefinition, result: DataFrame, bucket: int
) -> list[str]:
    """Return what a run would refuse or warn of, by the key that the table has or should get."""
    definition, mode = checked.definition, modes.MODES[checked.definition.mode]
    is_missing = lacks_table(run.control, definition)
    key = proposed_key(checked) if is_missing else RowKey.of(run.control, definition)
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
