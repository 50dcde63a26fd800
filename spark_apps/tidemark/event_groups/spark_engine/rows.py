"""The rows that an event writes for the rows of a result; pure, from frame to frame."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.event_groups.definition.many import Write, literal
from tidemark.event_groups.definition.model import Need
from tidemark.event_groups.definition.tables import Table
from tidemark.event_groups.spark_engine.shapes import HAS_NULLS, KEPT, SOURCE, TEXTS
from tidemark.event_groups.spark_engine.texts import as_text, canonical, storable, typed
from tidemark.spark.shapes import shaped
from tidemark.user_sql import allowed


@shaped(returns=KEPT)
def kept(rows: DataFrame, key: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """Return rows of texts in the form in which they are stored."""
    return rows.select(
        by_name({name: F.col(name) for name in key}).alias("id"),
        by_name({name: F.col(name) for name in columns}).alias("row_text"),
    )


def by_name(cells: Mapping[str, Column]) -> Column:
    """Return texts as JSON by name, including nulls."""
    pairs = [part for name, cell in cells.items() for part in (F.lit(name), cell)]
    return F.to_json(F.create_map(*pairs))


@shaped(rows=KEPT)
def seen(rows: DataFrame, kinds: Mapping[str, str]) -> DataFrame:
    """Return rows as an expression reads them: each column in its type of Spark's SQL."""
    texts = rows.select(F.from_json("row_text", TEXTS).alias(SOURCE))
    return texts.select(
        SOURCE, *(typed(F.col(SOURCE)[name], kind).alias(name) for name, kind in kinds.items())
    )


def written(
    rows: DataFrame,
    write: Write,
    key: Mapping[str, str],
    row_needs: Sequence[Need],
    shared: Mapping[str, str | None],
    jar_functions: Collection[str],
) -> DataFrame:
    """Return the rows to write: a text for each column, and `HAS_NULLS`.

    Args:
        rows: as `seen` returns them.
        write: of the event.
        key: CQL types of the key, whose texts are made comparable.
        row_needs: the needs whose values differ for each row.
        shared: the values of the other parameters.
        jar_functions: names of the functions of JARs that expressions may call.
    """
    parameters = {
        **{need.as_: _row_parameter(rows, need, jar_functions) for need in row_needs},
        **{name: F.lit(value).cast("string") for name, value in shared.items()},
    }
    values = {
        column: parameters[token.text[1:]]
        if token.kind == "parameter"
        else F.lit(literal(token)).cast("string")
        for column, token in write.values.items()
    }
    has_nulls = F.lit(False)
    for value in parameters.values():
        has_nulls = has_nulls | value.isNull()
    return rows.select(
        *(
            (canonical(value, key[name]) if name in key else value).alias(name)
            for name, value in values.items()
        ),
        has_nulls.alias(HAS_NULLS),
    )


def _row_parameter(rows: DataFrame, need: Need, jar_functions: Collection[str]) -> Column:
    if need.sql is None:
        return F.col(SOURCE)[need.take or need.as_]
    value = allowed.expression(rows.sparkSession, need.sql, jar_functions)
    [field] = rows.select(value.alias("value")).schema.fields
    return as_text(value, field.dataType.simpleString())


def stored_keys(rows: DataFrame, table: Table) -> DataFrame:
    """Return the keys of rows as the connector expects them."""
    kinds = table.columns
    return rows.select(*(storable(F.col(name), kinds[name]).alias(name) for name in table.key))


def without_key(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the rows with a null in their key."""
    return rows.where(" OR ".join(f"`{name}` IS NULL" for name in key))


def twice(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the keys that several rows have."""
    quoted = [F.col(f"`{name}`") for name in key]
    return rows.groupBy(*quoted).count().where("count > 1").select(*quoted)


def undeclared(rows: DataFrame, declared: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return the rows that no declared row covers, compared by these columns of the key."""
    return rows.join(F.broadcast(declared), on=list(columns), how="left_anti")
