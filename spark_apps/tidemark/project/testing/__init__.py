"""Unit tests of a definition, with plain rows and without Cassandra.

::

    from tidemark.projection.testing import run_projection

    rows = run_projection(Path("include/sql/projections/daily_punctuality.sql"), [event, ...])
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import InvalidInput, TidemarkError
from tidemark.partitioning.keys import BucketSize
from tidemark.project.acceptance import snapshots
from tidemark.project.analysis import analyze
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.definition.file import read
from tidemark.project.definition.model import Definition, Mode
from tidemark.project.envelope import IS_SNAPSHOT
from tidemark.project.testing import evaluate
from tidemark.project.testing.events import COLUMNS, Event, rows_of
from tidemark.project.transformation import result_checks, transform
from tidemark.project.transformation.result_checks import Finding
from tidemark.project.transformation.row_key import RowKey
from tidemark.project.writing import target
from tidemark.project.writing.write import MODES
from tidemark.spark.shapes import ddl
from tidemark.spark_session import FETCHED_JARS, require_java
from tidemark.text import counted

Tables = Mapping[str, Sequence[Mapping[str, Any]] | DataFrame]


def run_projection(
    definition: Path | str,
    events: Iterable[Event],
    *,
    bucket_size: BucketSize | str = BucketSize.HOUR,
    spark: SparkSession | None = None,
    tables: Tables | None = None,
) -> list[dict[str, Any]]:
    """Apply a definition to events with the code of a run, and return the rows of the result.

    Args:
        definition: path of the file, or its text, which then cannot refer to other files.
        events: dicts with persistence_id, sequence_nr and timestamp (an aware datetime, or ISO 8601
            text); optionally tags, serializer_id, manifest, event_manifest and metadata (a dict of
            serializer_id, manifest and payload); and the payload, either as `event` (bytes) or,
            for a payload in JSON, its fields. If the definition starts from snapshots, optionally
            is_snapshot; events before the newest snapshot are ignored. For mode rollup, the rows of
            the read model instead.
        bucket_size: size of the time buckets.
        spark: the session to use; by default the active session, or else a small local session.
        tables: rows of each table in `with`, by its name there.

    Returns:
        The rows as dicts, in no order; times are aware and in UTC. In mode upsert the last row of
        each persistence id, in mode fold its state, folded from the first event.

    Raises:
        DefinitionError: the definition cannot be used.
        SchemaMismatch: the result fits no target of the mode.
        InvalidInput: an event lacks a required key, or has an invalid value.
        TidemarkError: a run would quarantine an event; the result breaks the rules of the mode or
            fails a blocking check; or the result would differ if each time bucket, or in mode fold
            each event, was processed separately.
    """
    analyzed, rows, columns = _result(definition, events, bucket_size, spark, tables)
    result_checks.require(analyzed.definition, _findings(analyzed, rows))
    return [_plain(row.asDict(recursive=True)) for row in rows.select(*columns).collect()]


def failed_checks(
    definition: Path | str,
    events: Iterable[Event],
    *,
    bucket_size: BucketSize | str = BucketSize.HOUR,
    spark: SparkSession | None = None,
    tables: Tables | None = None,
) -> dict[str, int]:
    """Return the number of rows that fail each check, also checks that warn, by the check's text.

    Arguments and errors are those of `run_projection`; a failed check is no error.
    """
    analyzed, rows, _ = _result(definition, events, bucket_size, spark, tables)
    return {finding.check.text: finding.failing for finding in _findings(analyzed, rows)}


def _findings(analyzed: AnalyzedDefinition, rows: DataFrame) -> list[Finding]:
    definition = analyzed.definition
    return result_checks.examine(rows, definition.checks, list(MODES[definition.mode].required))


def _result(
    definition: Path | str,
    events: Iterable[Event],
    bucket_size: BucketSize | str,
    spark: SparkSession | None,
    tables: Tables | None,
) -> tuple[AnalyzedDefinition, DataFrame, list[str]]:
    """Return the definition, the rows to store, and the columns that it selects."""
    session, read_definition = _prepared(spark), _read(definition)
    if read_definition.mode is Mode.ROLLUP:
        analyzed, rows = _rolled_up(session, read_definition, events, tables)
        return analyzed, rows, analyzed.stored.names
    analyzed, decoded, buckets = _decoded(read_definition, events, bucket_size, session, tables)
    result, failed = evaluate.result(analyzed, decoded)
    causes = _causes(failed)
    if causes:
        pid, number, cause = causes[0]
        raise TidemarkError(
            f"{counted(len(causes), 'event')} cannot be processed, the first is {pid} {number}:"
            f" {cause}",
            where=str(analyzed.definition.file),
            do="correct the event; or expect it with unreadable_events",
        )
    target.require_columns(analyzed)
    evaluate.require_same_divided(analyzed, decoded, result)
    mode = MODES[analyzed.definition.mode]
    rows = mode.rows_of(result, analyzed.definition)
    mode.count(rows, analyzed.definition, target.known_key(analyzed) or RowKey(), buckets)
    return analyzed, transform.stored(rows), analyzed.stored.names


def unreadable_events(
    definition: Path | str,
    events: Iterable[Event],
    *,
    bucket_size: BucketSize | str = BucketSize.HOUR,
    spark: SparkSession | None = None,
    tables: Tables | None = None,
) -> dict[tuple[str, int], str]:
    """Return the cause of each event that a run would quarantine, by (persistence_id, sequence_nr).

    Arguments and errors are those of `run_projection`.
    """
    session, read_definition = _prepared(spark), _read(definition)
    if read_definition.mode is Mode.ROLLUP:
        what = f"{read_definition.name} reads rows of a read model, and no events"
        raise InvalidInput(what, do="call run_projection")
    analyzed, decoded, _ = _decoded(read_definition, events, bucket_size, session, tables)
    _, failed = evaluate.result(analyzed, decoded)
    return {(pid, number): cause for pid, number, cause in _causes(failed)}


def _rolled_up(
    session: SparkSession,
    definition: Definition,
    rows: Iterable[Mapping[str, Any]],
    tables: Tables | None,
) -> tuple[AnalyzedDefinition, DataFrame]:
    """Return the definition, and its result for some rows of its read model."""
    _frames(session, definition, tables)
    row_list: list[Any] = [*rows]
    if not row_list:
        raise InvalidInput(f"{definition.source.input} has no row", do="give one at least")
    read_model = session.createDataFrame(row_list)
    analyzed = analyze.analyze_rollup(session, definition, read_model.schema)
    result_checks.analyze(session, analyzed)
    target.require_columns(analyzed)
    result = analyze.apply(analyzed, read_model).localCheckpoint()
    mode = MODES[definition.mode]
    mode.count(result, definition, target.known_key(analyzed) or RowKey(), ())
    return analyzed, result


def _frames(
    session: SparkSession, definition: Definition, tables: Tables | None
) -> Mapping[str, DataFrame]:
    tables = tables or {}
    different = set(definition.tables) ^ set(tables)
    if different or not all(isinstance(tables[name], DataFrame) or tables[name] for name in tables):
        raise InvalidInput(
            f"the tables of the definition are {', '.join(definition.tables) or 'none'}",
            do="give the rows of each, at least one, or a DataFrame",
        )
    return {
        name: rows if isinstance(rows, DataFrame) else session.createDataFrame(cast("Any", rows))
        for name, rows in tables.items()
    }


def _prepared(spark: SparkSession | None) -> SparkSession:
    session = spark or SparkSession.getActiveSession() or _session()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.legacy.timeParserPolicy", "CORRECTED")
    return session


def _decoded(
    read_definition: Definition,
    events: Iterable[Event],
    bucket_size: BucketSize | str,
    session: SparkSession,
    tables: Tables | None,
) -> tuple[AnalyzedDefinition, DataFrame, Sequence[int]]:
    """Return the definition, the events decoded by `transform.decode`, and their time buckets."""
    frames = _frames(session, read_definition, tables)
    analyzed = analyze.analyze(session, read_definition, frames)
    result_checks.analyze(session, analyzed)
    size = bucket_size if isinstance(bucket_size, BucketSize) else BucketSize.parse(bucket_size)
    rows: list[Any] = [
        row
        for number, event in enumerate(events)
        for row in rows_of(event, number, analyzed.definition, size)
    ]
    frame = session.createDataFrame(rows, ddl(COLUMNS))
    starts = analyzed.definition.starts_from_snapshots
    frame = _from_snapshots(frame) if starts else frame.drop(IS_SNAPSHOT)
    distinct = transform.distinct_events(frame)
    decoded = transform.decode(distinct, analyzed.event, analyzed.decoders)
    return analyzed, decoded, sorted({row["time_bucket"] for row in rows})


def _from_snapshots(rows: DataFrame) -> DataFrame:
    snapshots_by_id = rows.where(IS_SNAPSHOT).groupBy("persistence_id")
    return snapshots.from_bases(
        rows, snapshots_by_id.agg(F.max("sequence_nr").alias("snapshot_nr"))
    )


def _session() -> SparkSession:
    require_java()
    return (
        SparkSession.builder.master("local[1]")
        .appName("tidemark projection test")
        .config("spark.jars", ",".join(map(str, sorted((FETCHED_JARS / "spark").glob("*.jar")))))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )


def _read(definition: Path | str) -> Definition:
    if isinstance(definition, Path) or "\n" not in definition:
        return read(Path(definition))
    with tempfile.TemporaryDirectory() as directory:
        kind = "sql" if definition.lstrip().startswith(("/*", "--")) else "py"
        file = Path(directory) / f"definition.{kind}"
        file.write_text(definition, "utf-8")
        return read(file)


def _causes(failed: DataFrame) -> list[tuple[str, int, str]]:
    return sorted((row.persistence_id, row.sequence_nr, row.cause) for row in failed.collect())


def _plain(value: Any) -> Any:
    """Return a value with its times in UTC; Spark returns local times without a zone."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return bytes(value) if isinstance(value, bytearray) else value
