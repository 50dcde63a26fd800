"""Checks the keys of a result's rows: valid values, and no two rows with the same key.

Cassandra rejects a key with a null. Of two rows with the same key it keeps the larger value of each
column, a row that no events produced. So both are checked before the first row is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.context import RunContext
from tidemark.errors import RowsRefused, TidemarkError
from tidemark.postgres.copy import NULL_CHARACTER
from tidemark.project import shapes
from tidemark.project.definition.model import Definition, Mode
from tidemark.project.planning import target_table
from tidemark.project.postgres import violations
from tidemark.user_sql.evaluate import SHOWN_CHARACTERS as SHOWN

_MOST_BYTES = 65_535
"""Limit of a key's column. Source: Cassandra, FBUtilities.MAX_UNSIGNED_SHORT."""
_MOST_ROW_BYTES = 16 << 20
"""Limit of a mutation. Source: Cassandra, max_mutation_size, half of a commit log segment."""
_NULL_IN_JSON = r"(?<!\\)(\\\\)*\\u0000"
"""The escape of U+0000 in JSON; after an odd number of backslashes, `u0000` are letters."""
_EVENT = tuple(shapes.EVENT)
_ROWS, _WHY, _DOUBLED = "_rows", "_why", "_doubled"


@dataclass(frozen=True)
class RowKey:
    """The primary key of a target; without columns if unknown, or if the target is no table.

    In PostgreSQL, `partition` is the first column of the key.
    """

    partition: Sequence[str] = ()
    clustering: Sequence[str] = ()

    @classmethod
    def of(cls, run: RunContext, definition: Definition) -> RowKey:
        """Return the key of a definition's target."""
        if not definition.table:
            return cls()
        return cls(*target_table.key_of(run, definition))

    @property
    def columns(self) -> list[str]:
        """All columns, in order."""
        return [*self.partition, *self.clustering]


@dataclass(frozen=True)
class RowCount:
    """The number of rows of a result, and whether they can be stored.

    Attributes:
        numbers: number of rows by the values of the columns by which they are counted.
        error: error that names the first row that no table can store, or the first key that several
            rows have; a RowsRefused if single events are the cause; None if all rows can be stored.
    """

    numbers: Mapping[tuple[Any, ...], int]
    error: TidemarkError | None

    def checked(self) -> Mapping[tuple[Any, ...], int]:
        """Return the numbers, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.numbers


def count(
    rows: DataFrame,
    definition: Definition,
    key: RowKey,
    *,
    unique: Sequence[str],
    required: Sequence[str] = (),
    by: Sequence[str] = (),
) -> RowCount:
    """Count the rows of a result, which must be in memory, by the values of the columns `by`.

    No two rows may be equal in the columns `unique`, if not empty. The columns `required` must not
    be null, in addition to those of the key.
    """
    columns = list(dict.fromkeys([*unique, *required, *key.columns]))
    problems = [
        *(_problem(rows, name, key, required, definition) for name in columns),
        unstorable_text(rows.schema) if definition.connection else _too_large(rows),
    ]
    problem = F.coalesce(*problems, F.lit(None).cast("string"))
    why = F.concat(problem, F.lit(" in a row of the result: "), _shown(columns))
    counted = rows.select(*dict.fromkeys([*unique, *by]), why.alias(_WHY), F.lit(1).alias(_ROWS))
    repetition = F.lit(None).cast("string")
    if unique:
        counted = counted.groupBy(*dict.fromkeys([*unique, *by])).agg(
            F.min(_WHY).alias(_WHY), F.count(F.lit(1)).alias(_ROWS)
        )
        text = F.concat(_ROWS, F.lit(" rows of the result have one key: "), _shown(unique))
        repetition = F.when(F.col(_ROWS) > 1, text)
    totals = (
        counted.withColumn(_DOUBLED, repetition)
        .groupBy(*by)
        .agg(F.sum(_ROWS).alias(_ROWS), *(F.min(name).alias(name) for name in (_WHY, _DOUBLED)))
        .collect()
    )
    numbers = {tuple(row[name] for name in by): int(row[_ROWS] or 0) for row in totals}
    error = None
    if unstorable := sorted(row[_WHY] for row in totals if row[_WHY]):
        error = _of_events(rows, why, definition) or TidemarkError(
            unstorable[0],
            where=str(definition.file),
            do="give it a value, as with coalesce, or leave such rows out with WHERE",
        )
    elif repeated := sorted(row[_DOUBLED] for row in totals if row[_DOUBLED]):
        differing = _differing(rows, unique)
        apart = f"; they differ in {', '.join(differing)}" if differing else ""
        do = "let the SELECT give one row for each key, or add to the key what tells rows apart"
        error = TidemarkError(f"{repeated[0]}{apart}", where=str(definition.file), do=do)
    return RowCount(numbers, error)


def _of_events(rows: DataFrame, why: Column, definition: Definition) -> RowsRefused | None:
    """Return the error of the events whose rows cannot be stored; None if it is not theirs."""
    # In mode bucket a row may be of several events.
    if definition.mode is Mode.BUCKET or not set(_EVENT) <= set(rows.columns):
        return None
    unstorable = rows.select(*_EVENT, why.alias(_WHY)).where(F.col(_WHY).isNotNull())
    refused = unstorable.take(violations.MOST + 1)
    causes = {(row["persistence_id"], row["sequence_nr"]): row[_WHY] for row in refused}
    if len(refused) > violations.MOST or not all(
        _has_event(*event, definition) for event in causes
    ):
        return None
    return RowsRefused(causes, definition.target)


def _has_event(persistence_id: str | None, number: int | None, definition: Definition) -> bool:
    """Return whether a row names its event, and the event can be left out.

    An offset is stored next to a read model in PostgreSQL, and none under an id with U+0000.
    """
    if persistence_id is None or number is None:
        return False
    return not (definition.connection and NULL_CHARACTER in persistence_id)


def _problem(
    rows: DataFrame, name: str, key: RowKey, required: Sequence[str], definition: Definition
) -> Column:
    """Return the error in a value of a key or required column, or null."""
    value, kind = F.col(name), rows.schema[name].dataType
    not_null = [*key.columns, *required]
    problem = F.when(value.isNull(), F.lit(f"{name} is null")) if name in not_null else F.lit(None)
    is_limited = name in key.columns and not definition.connection
    if is_limited and isinstance(kind, (T.StringType, T.BinaryType)):
        size = F.octet_length(name)
        problem = F.coalesce(
            problem,
            F.when(size > _MOST_BYTES, F.concat(F.lit(f"{name} has "), size, F.lit(" bytes"))),
        )
        if [name] == list(key.partition):
            problem = F.coalesce(problem, F.when(size == 0, F.lit(f"{name} is empty")))
    return problem.cast("string")


def unstorable_text(schema: T.StructType) -> Column:
    """Return for each row the error in a text that PostgreSQL cannot store, or null."""
    problems = [F.lit(None).cast("string")]
    for field in schema:
        value = F.col(f"`{field.name}`")
        if isinstance(field.dataType, T.StringType):
            has_it = F.contains(value, F.lit(NULL_CHARACTER))
        elif isinstance(field.dataType, (T.ArrayType, T.MapType, T.StructType)):
            has_it = F.to_json(F.struct(value)).rlike(_NULL_IN_JSON)
        else:
            continue
        problems.append(F.when(has_it, F.lit(f"{field.name} has the character U+0000")))
    return F.coalesce(*problems)


def _too_large(rows: DataFrame) -> Column:
    """Return the error for a row that is too large for Cassandra, or null."""
    sizes = [F.lit(0).cast("bigint")]
    for field in rows.schema:
        if isinstance(field.dataType, (T.StringType, T.BinaryType)):
            sizes.append(F.octet_length(field.name))
        elif isinstance(field.dataType, (T.ArrayType, T.MapType, T.StructType)):
            sizes.append(F.octet_length(F.to_json(F.struct(field.name))))
    size = reduce(lambda left, right: left + F.coalesce(right, F.lit(0)), sizes)
    text = F.format_string("%,d bytes, more than Cassandra takes at once,", size)
    return F.when(size > _MOST_ROW_BYTES, text)


def _shown(names: Sequence[str]) -> Column:
    texts = {name: F.coalesce(F.col(name).cast("string"), F.lit("null")) for name in names}
    pairs = [F.concat(F.lit(f"{name}="), texts[name].substr(1, SHOWN)) for name in names]
    return F.concat_ws(", ", *pairs)


def _differing(rows: DataFrame, unique: Sequence[str]) -> list[str]:
    """Return the columns in which the rows of the first repeated key differ."""
    others = [name for name in rows.columns if name not in unique]
    # As text, since Spark compares no maps.
    values = [
        F.count_distinct(F.coalesce(F.col(name).cast("string"), F.lit(""))).alias(name)
        for name in others
    ]
    number = F.count(F.lit(1)).alias(_ROWS)
    repeated = rows.groupBy(*unique).agg(number, *values).where(F.col(_ROWS) > 1)
    first = repeated.orderBy(*unique).head()
    return [] if first is None else [name for name in others if first[name] > 1]
