"""Checks that a result fits its target, and proposes a table for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import types as T

from tidemark.context import RunContext
from tidemark.errors import SchemaMismatch
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.definition.model import Definition, Mode
from tidemark.project.planning import target_table
from tidemark.project.planning.target_check import require_key
from tidemark.project.postgres import shape
from tidemark.project.postgres import table as postgres
from tidemark.project.postgres.place import PostgresPlace
from tidemark.project.transformation.row_key import RowKey
from tidemark.project.writing.mode import EVENT_KEY
from tidemark.project.writing.write import MODES

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_CQL_TYPES: dict[str, tuple[str, ...]] = {
    # By Spark's name of a type: the CQL types that can store all values of the type.
    "tinyint": _INTEGERS,
    "smallint": _INTEGERS[1:],
    "int": _INTEGERS[2:],
    "bigint": _INTEGERS[3:],
    "string": ("text", "varchar", "ascii"),
    "boolean": ("boolean",),
    "float": ("float", "double"),
    "double": ("double",),
    "timestamp": ("timestamp",),
    "date": ("date",),
    "binary": ("blob",),
}

_OF_GROUPS = (T.StringType, T.BooleanType, T.DateType)
"""Types by which results are usually grouped; a number is usually a count."""


def require_target(run: RunContext, analyzed: AnalyzedDefinition) -> None:
    """Reject a result that its target cannot store; the table may have further columns.

    Raises:
        SchemaMismatch: the table is missing or does not fit; all differences are in the message.
        DefinitionError: the table fits, but has another key than the definition states.
        InvalidInput: in PostgreSQL, the user of the connection lacks a right.
    """
    definition = analyzed.definition
    mode = MODES[definition.mode]
    if not mode.has_table:
        require_columns(analyzed)
        return
    columns, differences = _shape(run, analyzed)
    if columns is None:
        require_columns(analyzed)
        raise SchemaMismatch(
            f"the target {definition.target} of projection {definition.name} does not exist",
            where=str(definition.file),
            do="create the table first; `project.py --dry-run --show` prints the statement",
        )
    partition_key, clustering = target_table.key_of(run, definition)
    key_problem = mode.key_problem(partition_key, clustering)
    _refuse(
        analyzed,
        [
            *([key_problem] if key_problem else []),
            *_missing(analyzed, [*partition_key, *clustering]),
            *mode.result_problems(analyzed),
            *_hidden(analyzed, columns),
            *differences,
        ],
        f"change {analyzed.definition.body} or the table",
    )
    require_key(definition, [*partition_key, *clustering])
    if definition.connection:
        shape.require_rights(PostgresPlace.of(run.settings, definition))


def _shape(
    run: RunContext, analyzed: AnalyzedDefinition
) -> tuple[Mapping[str, str] | None, list[str]]:
    """Return the types of the table's columns, and clauses for those that do not fit."""
    definition = analyzed.definition
    if definition.connection:
        found = shape.read(PostgresPlace.of(run.settings, definition))
        if found is None:
            return None, []
        return found.types, [*postgres.differences(analyzed.stored, found)]
    columns = run.control.table_columns(definition.keyspace, definition.table)
    return columns, [] if columns is None else [*_type_differences(analyzed.stored, columns)]


def lacks_table(run: RunContext, definition: Definition) -> bool:
    """Return whether the user has to create a table; runs create those of blue/green versions."""
    if not MODES[definition.mode].has_table:
        return False
    return not target_table.is_present(run, replace(definition, table=definition.template))


def create_statement(run: RunContext, analyzed: AnalyzedDefinition) -> list[str]:
    """Return the lines of the statement that creates the target.

    Raises:
        SchemaMismatch: no table could store the result.
    """
    definition = analyzed.definition
    require_columns(analyzed)
    proposed = proposed_key(analyzed)
    if definition.connection:
        place = PostgresPlace.of(run.settings, definition)
        return postgres.create_statement(place, analyzed.stored, proposed.columns)
    key = ", ".join([f"({', '.join(proposed.partition)})", *proposed.clustering])
    columns = [f"    {field.name} {_proposed_type(field)}," for field in analyzed.stored]
    return [
        f"CREATE TABLE {definition.keyspace}.{definition.template} (",
        *columns,
        f"    PRIMARY KEY ({key})",
        ");",
    ]


def proposed_key(analyzed: AnalyzedDefinition) -> RowKey:
    """Return `known_key`, or else the columns by which results are usually grouped.

    Whether two rows have the same key is checked only when rows are written.
    """
    fields = analyzed.result.fields
    grouping_columns = [field.name for field in fields if isinstance(field.dataType, _OF_GROUPS)]
    if analyzed.definition.mode is Mode.ROLLUP:
        first, *others = grouping_columns or analyzed.result.names
        return known_key(analyzed) or RowKey([first], others if grouping_columns else [])
    return known_key(analyzed) or RowKey(["time_bucket"], grouping_columns)


def known_key(analyzed: AnalyzedDefinition) -> RowKey | None:
    """Return the key that the definition states, or else a key that no two rows share.

    In modes bucket and rollup this is the columns of the groups, or in mode bucket the event's key;
    None if the result has neither, or if the target is no table.
    """
    definition, mode = analyzed.definition, MODES[analyzed.definition.mode]
    columns = list(mode.required)
    if not mode.has_table:
        return None
    if definition.key is not None:
        columns = list(definition.key.columns)
    elif definition.mode.is_one_row:
        columns = columns[:1]
    elif definition.mode is Mode.BUCKET and analyzed.groups is not None:
        columns += analyzed.groups
    elif definition.mode is Mode.BUCKET and set(analyzed.result.names).issuperset(EVENT_KEY):
        columns += EVENT_KEY
    elif definition.mode is Mode.ROLLUP and analyzed.groups:
        columns = [*analyzed.groups]
    elif definition.mode in {Mode.BUCKET, Mode.ROLLUP}:
        return None
    first, *others = dict.fromkeys(columns)
    return RowKey([first], others)


def _proposed_type(field: T.StructField) -> str:
    fitting = cql_types(field.dataType)
    return fitting[0] if fitting else f"?  -- no type holds {field.dataType.simpleString()}"


def require_columns(analyzed: AnalyzedDefinition) -> None:
    """Reject a result that no target of its mode can store.

    Raises:
        SchemaMismatch: the result has problems; the message names all of them.
    """
    stated_key = analyzed.definition.key
    problems = [
        *_missing(analyzed, list(stated_key.columns) if stated_key else []),
        *MODES[analyzed.definition.mode].result_problems(analyzed),
    ]
    _refuse(analyzed, problems, f"change {analyzed.definition.body}")


def _refuse(analyzed: AnalyzedDefinition, problems: Sequence[str], do: str) -> None:
    if problems:
        definition = analyzed.definition
        raise SchemaMismatch(
            f"projection {definition.name} does not fit {definition.target}: "
            + "; ".join(problems),
            where=str(definition.file),
            do=do,
        )


def _missing(analyzed: AnalyzedDefinition, key: list[str]) -> Iterator[str]:
    mode = MODES[analyzed.definition.mode]
    for name in dict.fromkeys([*mode.required, *key]):
        if name not in analyzed.result.names:
            why = "is part of the primary key" if name in key else mode.purpose
            yield f"the result has no column {name}, which {why}"
        elif name in mode.required:
            kind, required_kind = analyzed.result[name].dataType, mode.required[name]
            if kind != required_kind:
                yield (
                    f"{name} is {kind.simpleString()} in the result,"
                    f" it must be the {required_kind.simpleString()} of the event"
                )


def _hidden(analyzed: AnalyzedDefinition, columns: Mapping[str, str]) -> Iterator[str]:
    """Return problems of columns with another meaning in the result than in the table."""
    for name in set(analyzed.result.names) - set(analyzed.stored.names):
        if name in columns:
            yield f"{name} says which rows are deleted, and the table has such a column: rename it"


def _type_differences(result: T.StructType, columns: Mapping[str, str]) -> Iterator[str]:
    for field in result.fields:
        kind = columns.get(field.name)
        if kind is None:
            yield (
                f"the table has no column {field.name}"
                f" ({field.dataType.simpleString()} in the result)"
            )
        elif re.sub(r"^frozen<(.*)>$", r"\1", kind) not in cql_types(field.dataType):
            yield (
                f"{field.name} is {field.dataType.simpleString()} in the result"
                f" and {kind} in the table"
            )


def cql_types(kind: T.DataType) -> list[str]:
    """Return the CQL types that can store every value of a Spark type."""
    if isinstance(kind, T.ArrayType):
        return [
            f"{collection}<{element}>"
            for collection in ("list", "set")
            for element in cql_types(kind.elementType)
        ]
    if isinstance(kind, T.MapType):
        return [
            f"map<{key}, {value}>"
            for key in cql_types(kind.keyType)
            for value in cql_types(kind.valueType)
        ]
    if isinstance(kind, T.DecimalType):
        return ["decimal"]
    return list(_CQL_TYPES.get(kind.simpleString(), ()))
