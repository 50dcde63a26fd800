"""Whether a result fits the target that it is for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import types as T

from tidemark.cassandra.control import Control
from tidemark.errors import SchemaMismatch
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.definition.model import Definition, Mode
from tidemark.project.planning.target_check import require_key
from tidemark.project.transformation.row_key import RowKey
from tidemark.project.writing.mode import EVENT_KEY
from tidemark.project.writing.write import MODES

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_CQL_TYPES: dict[str, tuple[str, ...]] = {
    # Spark's name of a type: the CQL types that hold all of its values.
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
"""Types by which results are usually grouped; a number is usually what was counted."""


def require_target(control: Control, checked: AnalyzedDefinition) -> None:
    """Refuse a result that its target cannot hold; columns that it leaves out are welcome.

    Raises:
        SchemaMismatch: naming every difference at once, with both types.
        DefinitionError: the table would do, but has another key than the definition states.
    """
    definition = checked.definition
    mode = MODES[definition.mode]
    if not mode.has_table:
        require_columns(checked)
        return
    columns = control.table_columns(definition.keyspace, definition.table)
    if columns is None:
        require_columns(checked)
        raise SchemaMismatch(
            f"the target {definition.target} of projection {definition.name} does not exist",
            where=str(definition.file),
            do="create the table first; `project.py --dry-run --show` prints the statement",
        )
    partition_key, clustering = control.primary_key(definition.keyspace, definition.table)
    key_problem = mode.key_problem(partition_key, clustering)
    _refuse(
        checked,
        [
            *([key_problem] if key_problem else []),
            *_missing(checked, [*partition_key, *clustering]),
            *mode.result_problems(checked),
            *_hidden(checked, columns),
            *_type_differences(checked.stored, columns),
        ],
        f"change {checked.definition.body} or the table",
    )
    require_key(definition, [*partition_key, *clustering])


def lacks_table(control: Control, definition: Definition) -> bool:
    """Return whether somebody has to make the table; that of a blue/green version is the run's."""
    return (
        MODES[definition.mode].has_table
        and control.table_columns(definition.keyspace, definition.template) is None
    )


def create_statement(checked: AnalyzedDefinition) -> list[str]:
    """Return the statement that makes the target, line by line.

    Raises:
        SchemaMismatch: no table could hold the result.
    """
    definition = checked.definition
    require_columns(checked)
    proposed = proposed_key(checked)
    key = ", ".join([f"({', '.join(proposed.partition)})", *proposed.clustering])
    columns = [f"    {field.name} {_proposed_type(field)}," for field in checked.stored]
    return [
        f"CREATE TABLE {definition.keyspace}.{definition.template} (",
        *columns,
        f"    PRIMARY KEY ({key})",
        ");",
    ]


def proposed_key(checked: AnalyzedDefinition) -> RowKey:
    """Return `known_key`, or else the columns by which results are usually grouped.

    Whether no two rows have the same is seen when there are rows.
    """
    fields = checked.result.fields
    usual = [field.name for field in fields if isinstance(field.dataType, _OF_GROUPS)]
    if checked.definition.mode is Mode.ROLLUP:
        first, *others = usual or checked.result.names
        return known_key(checked) or RowKey([first], others if usual else [])
    return known_key(checked) or RowKey(["time_bucket"], usual)


def known_key(checked: AnalyzedDefinition) -> RowKey | None:
    """Return the key that the definition states, or else one in which its rows are alone.

    In modes bucket and rollup that is what they are grouped by, or the event's own; None if neither
    is there, or if the target is no table.
    """
    definition, mode = checked.definition, MODES[checked.definition.mode]
    columns = list(mode.required)
    if not mode.has_table:
        return None
    if definition.key is not None:
        columns = list(definition.key.columns)
    elif definition.mode.is_one_row:
        columns = columns[:1]
    elif definition.mode is Mode.BUCKET and checked.groups is not None:
        columns += checked.groups
    elif definition.mode is Mode.BUCKET and set(checked.result.names).issuperset(EVENT_KEY):
        columns += EVENT_KEY
    elif definition.mode is Mode.ROLLUP and checked.groups:
        columns = [*checked.groups]
    elif definition.mode in {Mode.BUCKET, Mode.ROLLUP}:
        return None
    first, *others = dict.fromkeys(columns)
    return RowKey([first], others)


def _proposed_type(field: T.StructField) -> str:
    fitting = cql_types(field.dataType)
    return fitting[0] if fitting else f"?  -- no type holds {field.dataType.simpleString()}"


def require_columns(checked: AnalyzedDefinition) -> None:
    """Refuse a result that no target of its mode can hold, whatever the table.

    Raises:
        SchemaMismatch: naming every difference at once.
    """
    stated = checked.definition.key
    problems = [
        *_missing(checked, list(stated.columns) if stated else []),
        *MODES[checked.definition.mode].result_problems(checked),
    ]
    _refuse(checked, problems, f"change {checked.definition.body}")


def _refuse(checked: AnalyzedDefinition, problems: Sequence[str], do: str) -> None:
    if problems:
        definition = checked.definition
        raise SchemaMismatch(
            f"projection {definition.name} does not fit {definition.target}: "
            + "; ".join(problems),
            where=str(definition.file),
            do=do,
        )


def _missing(checked: AnalyzedDefinition, key: list[str]) -> Iterator[str]:
    mode = MODES[checked.definition.mode]
    for name in dict.fromkeys([*mode.required, *key]):
        if name not in checked.result.names:
            why = "is part of the primary key" if name in key else mode.purpose
            yield f"the result has no column {name}, which {why}"
        elif name in mode.required:
            kind, wanted = checked.result[name].dataType, mode.required[name]
            if kind != wanted:
                yield (
                    f"{name} is {kind.simpleString()} in the result,"
                    f" it must be the {wanted.simpleString()} of the event"
                )


def _hidden(checked: AnalyzedDefinition, columns: Mapping[str, str]) -> Iterator[str]:
    """Name the columns that mean something else in the result than in the table."""
    for name in set(checked.result.names) - set(checked.stored.names):
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
    """Return the CQL types that hold every value of a Spark type."""
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
