"""The readers of the sources that users' checks can name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.errors import InvalidInput, SchemaMismatch, all_of
from tidemark.journals.kafka import written
from tidemark.journals.kafka.tables import JOURNAL_WRITES, METAJOURNAL_WRITES, require_kafka_journal
from tidemark.journals.pekko import event_type
from tidemark.journals.r2dbc import frames as r2dbc_frames
from tidemark.ledger import applications, quarantine
from tidemark.ledger.quarantine import Place
from tidemark.partitioning import columns
from tidemark.project.analysis.analyze import analyze
from tidemark.project.definition import catalog
from tidemark.project.definition.model import Definition, Mode
from tidemark.project.planning import live_release
from tidemark.project.sources import event_source, reference_tables
from tidemark.project.sources.read import PAYLOAD, message_rows
from tidemark.project.testing import evaluate
from tidemark.project.transformation import transform
from tidemark.project.writing import dead_letters
from tidemark.spark.local_rows import local_rows
from tidemark.validate.findings import finding
from tidemark.validate.user_checks.named import Reader
from tidemark.validate.user_checks.source import CheckSource, SourceKind

EARLIER_BUCKETS = 100
"""The number of time buckets of a read model that are read before those of the run, which its
projection usually has not processed yet."""


def _journal(run: RunContext, _source: CheckSource, buckets: Sequence[int]) -> DataFrame:
    """Read the rows of messages; the payload is read only if the SELECT has its size."""
    return _journal_rows(run, buckets).select(
        "persistence_id",
        "sequence_nr",
        columns.ticks_timestamp(F.col("ticks")).alias("timestamp"),
        "time_bucket",
        "tags",
        *event_type.columns(),
        F.length("event").cast("bigint").alias("payload_bytes"),
    )


def _journal_rows(run: RunContext, buckets: Sequence[int]) -> DataFrame:
    if not run.settings.is_r2dbc:
        return message_rows(run, buckets)
    first, end = min(buckets), max(buckets) + run.settings.bucket_size.milliseconds
    events = r2dbc_frames.events_between(run.spark, run.settings, first, end, *PAYLOAD)
    return finding.within(events, buckets)


def _events(run: RunContext, source: CheckSource, buckets: Sequence[int]) -> DataFrame:
    """Read the events of a projection, as its SELECT or function gets them.

    Raises:
        InvalidInput: the projection reads no events.
    """
    definition = _definition(run, source.projection)
    if definition.mode is Mode.ROLLUP:
        raise InvalidInput(
            f"projection {definition.name} reads a read model and no events",
            where=str(definition.file),
            do=f"check `read-model: {definition.name}`",
        )
    tables = reference_tables.read(run, definition)
    try:
        checked = analyze(run.spark, definition, tables)
    finally:
        for table in tables.values():
            table.unpersist()
    rows = event_source(run, definition).rows(buckets)
    return transform.readable(evaluate.decoded(checked, rows))


def _read_model(run: RunContext, source: CheckSource, buckets: Sequence[int]) -> DataFrame:
    """Read the live table of a projection: in mode bucket by time bucket, else completely.

    Raises:
        InvalidInput: the projection has no table.
        SchemaMismatch: the table does not exist.
    """
    definition = _definition(run, source.projection)
    if definition.mode is Mode.EXPORT:
        raise InvalidInput(
            f"projection {definition.name} writes files and no table",
            where=str(definition.file),
            do=f"check `events: {definition.name}`",
        )
    live_table = _live_table(run, definition)
    keyspace, _, table = live_table.partition(".")
    names = run.control.table_columns(keyspace, table)
    if names is None:
        raise SchemaMismatch(
            f"the table {live_table} of projection {definition.name} does not exist",
            where=str(definition.file),
            do="create it and process the projection again, or remove the check",
        )
    keys = None
    if definition.mode is Mode.BUCKET:
        size = run.settings.bucket_size.milliseconds
        earlier_buckets = (min(buckets) - number * size for number in range(1, EARLIER_BUCKETS + 1))
        wanted = [(bucket,) for bucket in sorted({*buckets, *earlier_buckets})]
        keys = local_rows(run.spark, wanted, "time_bucket bigint")
    return connector.read(run.spark, keyspace, table, *names, keys=keys)


def _live_table(run: RunContext, definition: Definition) -> str:
    if definition.mode is Mode.ROLLUP:
        return definition.target
    live = live_release.live(run.control, run.settings, definition)
    if live is None:
        raise InvalidInput(
            f"projection {definition.name} has no read model: no run has processed it",
            where=str(definition.file),
            do="run `project.py`, or remove the check until then",
        )
    return live.table


def _metajournal(run: RunContext, _source: CheckSource, _buckets: Sequence[int]) -> DataFrame:
    """Read the heads of all topics of kafka-journal."""
    require_kafka_journal(run.control, run.settings, JOURNAL_WRITES, METAJOURNAL_WRITES)
    return written.head_rows(run.spark, run.settings)


def _quarantine(run: RunContext, _source: CheckSource, _buckets: Sequence[int]) -> DataFrame:
    """Read the events that tag-write, reconcile and projections could not process, by key.

    Events of a projection whose file cannot be used are left out.
    """
    settings = run.settings
    messages = f"{settings.journal_keyspace}.{settings.journal_table}"
    sources = [
        *(Place(messages, writer) for writer in (applications.TAG_WRITE, applications.RECONCILE)),
        *(
            dead_letters.place_of(run, definition)
            for definition in catalog.read_all(settings.projections_dir).definitions
        ),
    ]
    return quarantine.rows(run.spark, settings, sources).select(
        "source",
        "application",
        "persistence_id",
        "sequence_nr",
        columns.ticks_timestamp(columns.timeuuid_ticks(F.col("timestamp"))).alias("timestamp"),
        "cause",
        F.col("ser_id").alias("serializer_id"),
        F.col("ser_manifest").alias("manifest"),
        "run_id",
        "found_at",
    )


def _definition(run: RunContext, name: str) -> Definition:
    """Return the definition of a projection.

    Raises:
        InvalidInput: there is no such projection, or its file cannot be used.
    """
    selected = catalog.select(run.settings.projections_dir, [name])
    if error := all_of(selected.errors):
        raise error
    [definition] = [*selected.definitions, *(rollup.definition for rollup in selected.rollups)]
    return definition


READERS: Mapping[SourceKind, Reader] = {
    SourceKind.JOURNAL: _journal,
    SourceKind.EVENTS: _events,
    SourceKind.READ_MODEL: _read_model,
    SourceKind.METAJOURNAL: _metajournal,
    SourceKind.QUARANTINE: _quarantine,
}
