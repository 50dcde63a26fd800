"""The check of all projections: waiting time buckets by the ledger, offsets by a scan."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, timedelta
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.context import RunContext
from tidemark.ledger.piece import PieceRow, State
from tidemark.partitioning.slice_ranges import ALL
from tidemark.project.definition import catalog
from tidemark.project.definition.model import Definition
from tidemark.project.offset_store import consumption, missing_numbers
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning.plan import ledger
from tidemark.project.sources import event_source
from tidemark.project.writing.bucket import differing_buckets
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.findings import finding
from tidemark.validate.layers.projections import checks
from tidemark.validate.layers.projections.offsets import offsets_ahead
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET
from tidemark.validate.reading.inspection import Keep
from tidemark.window import from_millis, iso

_NOT_DONE = (State.HELD, State.FAILED)


@shaped(returns=shapes.FINDINGS)
def find(run: RunContext, _keep: Keep) -> DataFrame:
    """Return the findings of all projections that have begun, and of files that cannot be used."""
    files = catalog.read_all(run.settings.projections_dir)
    definitions = files.definitions
    rows = [
        *(_unusable(unusable) for unusable in files.unusable),
        *(
            row
            for definition in definitions
            for row in (*_waits(run, definition), *_rows_differing(run, definition))
        ),
    ]
    parts = [_ahead(run, definition) for definition in definitions]
    ledger_findings = local_rows(run.spark, rows, finding.SCHEMA)
    return reduce(DataFrame.unionByName, map(finding.with_evidence, [ledger_findings, *parts]))


def _unusable(broken: catalog.Unusable) -> tuple[object, ...]:
    """Return the finding of a file, as a row of `finding.SCHEMA`."""
    key = (NO_TIME_BUCKET, checks.UNUSABLE.name, "", broken.name)
    return *key, 0, None, str(broken.error)


def _waits(run: RunContext, definition: Definition) -> Iterator[tuple[object, ...]]:
    """Yield the findings by the ledger, as rows of `finding.SCHEMA`."""
    rows = ledger(run, definition).standing().rows
    entries = [entry for entry in rows if entry.state in _NOT_DONE]
    for entry in entries:
        yield (
            *(NO_TIME_BUCKET, checks.PIECE_NOT_DONE.name, "", definition.name),
            *(entry.time_bucket, None),
            f"time bucket {_text(entry.time_bucket)} is {entry.state}{_since(entry)}:"
            f" {entry.error or definition.source.waits_for}",
        )
    store = OffsetStore.of(run, definition)
    by_bucket = missing_numbers.read(store, [row.time_bucket for row in entries if row.has_gap])
    since: dict[missing_numbers.Missing, int] = {}
    for bucket, ranges in by_bucket.items():
        for missing in ranges:
            since[missing] = min(bucket, since.get(missing, bucket))
    for missing, bucket in sorted(since.items()):
        subject = " ".join(filter(None, (definition.name, missing.tag)))
        yield (
            *(NO_TIME_BUCKET, checks.NUMBERS_MISSING.name, missing.persistence_id, subject),
            *(missing.first, missing.last),
            f"{missing} missing, holds the time buckets from {_text(bucket)} on",
        )


def _rows_differing(run: RunContext, definition: Definition) -> Iterator[tuple[object, ...]]:
    for difference in differing_buckets(run, definition):
        yield (
            *(NO_TIME_BUCKET, checks.ROWS_DIFFER.name, "", definition.name),
            *(difference.time_bucket, None),
            f"time bucket {difference} ({definition.target})",
        )


def _ahead(run: RunContext, definition: Definition) -> DataFrame:
    store = OffsetStore.of(run, definition)
    offsets = consumption.stored_offsets(store, run.spark, ALL)
    offsets = offsets.where(F.col("tag").isin(*definition.source.series_tags))
    if offsets.isEmpty():
        return local_rows(run.spark, [], finding.SCHEMA)
    source = event_source(run, definition)
    numbers = source.numbers().localCheckpoint()
    return offsets_ahead(definition.name, offsets, numbers, source.written(), source.deleted())


def _since(entry: PieceRow) -> str:
    if entry.finished_at is None:
        return ""
    age: timedelta = clock.now() - entry.finished_at.replace(tzinfo=UTC)
    return f", last tried {timedelta(seconds=int(age.total_seconds()))} ago"


def _text(time_bucket: int) -> str:
    return iso(from_millis(time_bucket))
