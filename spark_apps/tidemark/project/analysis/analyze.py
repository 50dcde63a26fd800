"""Runs Spark's parser and analyzer on a definition, with an empty table `events`.

A function of the user's is called with that empty table.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from tidemark.project.analysis import user_code
from tidemark.project.analysis.combining import Combination, combinations, grouped_by
from tidemark.project.decoding.prepare import Decoders, prepare
from tidemark.project.definition.decoder import is_plain_json
from tidemark.project.definition.model import Definition, Mode
from tidemark.project.definition.query import Function
from tidemark.project.envelope import (
    DELETED,
    ENVELOPE,
    IS_SNAPSHOT,
    SOURCE_COLUMN,
    STATE_KEY,
    UNREADABLE_COLUMN,
)
from tidemark.spark import gateway, time_formats
from tidemark.spark.determinism import foreign_tables, is_same_plan, unrepeatable
from tidemark.user_sql import allowed
from tidemark.user_sql.ansi import ansi
from tidemark.user_sql.evaluate import accepted
from tidemark.user_sql.refusal import refused
from tidemark.user_sql.statement import Select

_RESERVED = {*ENVELOPE.names, SOURCE_COLUMN, UNREADABLE_COLUMN}


@dataclass(frozen=True)
class AnalyzedDefinition:
    """A definition that Spark accepts.

    Attributes:
        definition: the definition as its file has it.
        event: the payload's fields; in mode rollup the columns of the read model.
        result: columns of the result; in mode fold, the key's columns and then the state's fields.
        decoders: decoders of the payloads; None if all payloads are JSON.
        combining: steps of the query that combine rows of several events.
        groups: columns of the result that identify its groups; None if the rows are no groups, or
            the result lacks a grouping column.
        tables: tables to join events with, by name.
    """

    definition: Definition
    event: T.StructType
    result: T.StructType
    decoders: Decoders | None
    combining: tuple[Combination, ...] = ()
    groups: Sequence[str] | None = None
    tables: Mapping[str, DataFrame] = field(default_factory=dict)

    @property
    def stored(self) -> T.StructType:
        """The columns of the result that the target stores."""
        if self.definition.mode is not Mode.UPSERT:
            return self.result
        return T.StructType([field for field in self.result if field.name != DELETED])


def analyze(
    spark: SparkSession, definition: Definition, tables: Mapping[str, DataFrame] | None = None
) -> AnalyzedDefinition:
    """Parse and analyze a definition, without reading data.

    Raises:
        DefinitionError: Spark rejects the definition, or its result depends on the run.
    """
    snapshot_field = (
        [T.StructField(IS_SNAPSHOT, T.BooleanType())] if definition.starts_from_snapshots else []
    )
    reserved = {*_RESERVED, *(field.name for field in snapshot_field)}
    event = _fields(spark, definition, "event", definition.event, reserved)
    try:
        event = time_formats.with_formats(spark, event, definition.formats)
    except time_formats.BadFormat as error:
        line = definition.header_lines["formats"]
        raise definition.error(str(error), "correct its format", line) from None
    rules = definition.decoders
    decoders = None
    if not is_plain_json(rules):
        decoders = prepare(spark, rules, time_formats.as_read(event), definition.on_error)
    if definition.state:
        state = _fields(spark, definition, "state", definition.state, set(STATE_KEY.names))
        user_code.require_loadable(spark, definition)
        result = T.StructType([*STATE_KEY.fields, *state.fields])
        return AnalyzedDefinition(definition, event, result, decoders)
    schema = T.StructType([*ENVELOPE.fields, *snapshot_field, *event.fields])
    return _of_rows(spark, AnalyzedDefinition(definition, event, schema, decoders), tables or {})


def analyze_rollup(
    spark: SparkSession, definition: Definition, columns: T.StructType
) -> AnalyzedDefinition:
    """Parse and analyze a rollup of a read model with these columns, without reading data."""
    return _of_rows(spark, AnalyzedDefinition(definition, columns, columns, None), {})


def _of_rows(
    spark: SparkSession, unresolved: AnalyzedDefinition, tables: Mapping[str, DataFrame]
) -> AnalyzedDefinition:
    """Return the definition with its result; the given `result` has the columns that it reads."""
    definition = unresolved.definition
    frame = _analyzed(spark, definition, unresolved.result, tables)
    result = frame.schema
    repeated = [name for name, times in Counter(result.names).items() if times > 1]
    if repeated:
        raise definition.error(
            f"the result has more than one column {', '.join(repeated)}",
            "name each of them once, with AS",
            definition.body.line,
        )
    if names := unrepeatable(frame):
        raise definition.error(
            f"{', '.join(names)}: the result is another one each time that it is made",
            "leave it out, since what is processed again must have the same rows; an event's own"
            " time is `timestamp`",
            definition.body.line,
        )
    return replace(
        unresolved,
        result=result,
        combining=combinations(frame),
        groups=grouped_by(frame),
        tables=tables,
    )


def apply(analyzed: AnalyzedDefinition, events: DataFrame) -> DataFrame:
    """Apply a definition to its events or rows; a SELECT replaces the session's views of them.

    Not for mode fold, which also needs the states.
    """
    definition, body = analyzed.definition, analyzed.definition.body
    if isinstance(body, Function):
        return _called(definition, body, events, analyzed.tables)
    views = _views(definition, events, analyzed.tables)
    return allowed.query(events.sparkSession, body.sql, views)


def _require_of_events(
    definition: Definition, body: Function, result: DataFrame, tables: Mapping[str, DataFrame]
) -> None:
    if names := foreign_tables(result, tables.values()):
        raise definition.error(
            f"{body.name} reads {', '.join(names)}",
            f"read {definition.source.input} only, and tables that `with` names",
            body.line,
        )


def _called(
    definition: Definition, body: Function, events: DataFrame, tables: Mapping[str, DataFrame]
) -> DataFrame:
    with ansi(events.sparkSession):
        return user_code.result(definition, body, events, tables)


def _views(
    definition: Definition, events: DataFrame, tables: Mapping[str, DataFrame]
) -> Sequence[str]:
    """Create the views that a SELECT reads, and return their names."""
    frames = {definition.source.input: events, **tables}
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    return list(frames)


def _fields(
    spark: SparkSession, definition: Definition, key: str, ddl: str, reserved: set[str]
) -> T.StructType:
    """Return the fields that the header's `key` declares in Spark DDL."""
    remedy = "write Spark DDL such as `kind STRING, dep_delay INT`"
    line = definition.header_lines[key]
    try:
        struct = gateway.named(spark, "org.apache.spark.sql.types.StructType").fromDDL(ddl)
    except PySparkException as error:
        raise refused(definition.file, f"the {key}'s fields", error, remedy, line) from None
    fields = T.StructType.fromJson(json.loads(struct.json()))
    names = [name.lower() for name in fields.names]
    reserved_names = sorted(reserved.intersection(names))
    if reserved_names or len(set(names)) < len(names):
        what = (
            f"every {key} has {', '.join(reserved_names)} already"
            if reserved_names
            else "a field is named twice"
        )
        raise definition.error(what, "rename the field", line)
    return fields


def _analyzed(
    spark: SparkSession,
    definition: Definition,
    schema: T.StructType,
    tables: Mapping[str, DataFrame],
) -> DataFrame:
    columns = [
        f"the columns of {name} are {', '.join(names)}"
        for name, names in {
            definition.source.input: schema.names,
            **{name: frame.columns for name, frame in tables.items()},
        }.items()
    ]
    body = definition.body
    if not isinstance(body, Select):
        user_code.require_loadable(spark, definition)
        empty = spark.createDataFrame([], schema)
        result, result_again = (_called(definition, body, empty, tables) for _ in range(2))
        _require_of_events(definition, body, result, tables)
        if not is_same_plan(result, result_again):
            raise definition.error(
                f"{body.name} makes another query each time that it is called",
                "leave out what depends on the call, such as the present time",
                body.line,
            )
        return result
    views = _views(definition, spark.createDataFrame([], schema), tables)
    return accepted(spark, body, definition.file, "; ".join(columns), views)
