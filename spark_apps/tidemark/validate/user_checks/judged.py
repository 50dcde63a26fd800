"""Users' expectations: the result of a SELECT as a small table, judged by Great Expectations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType

from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.user_files.header import error_in
from tidemark.validate import shapes
from tidemark.validate.data_docs.catalogue import Expectation
from tidemark.validate.data_docs.small_table import CannotBeJudged, Unmet, unmet
from tidemark.validate.findings import finding
from tidemark.validate.user_checks.definition import UserCheck
from tidemark.validate.user_checks.result import computing, elsewhere, key_of, shown
from tidemark.validate.user_checks.suite import Suite

MOST_ROWS = 100_000
"""Rows that one result may have; ten for each of the time buckets that a run takes up at most."""


def require_columns(suite: Suite, rows: DataFrame) -> None:
    """Refuse an expectation of a column that the result does not have; no row is read.

    Raises:
        DefinitionError: naming the suite's file, the expectation and what would be right.
    """
    for place, expectation in enumerate(suite.each):
        for name in expectation.columns:
            if name not in rows.columns:
                do = f"the columns of the result are {', '.join(rows.columns)}"
                raise suite.error(place, f"unknown column {name}", do)


@shaped(returns=shapes.FINDINGS)
def unmet_expectations(
    rows: DataFrame,
    check: UserCheck,
    suite: Suite,
    buckets: Collection[int],
    keep: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """Return a finding for each key of the rows, and each time bucket, that are not as expected.

    Args:
        rows: the result of the SELECT.
        check: the check.
        suite: of the check; `require_columns` has accepted it.
        buckets: the time buckets that are judged (epoch ms).
        keep: keeps a frame in memory.

    Raises:
        DefinitionError: there are more than MOST_ROWS rows, one is of another time bucket, or an
            expectation cannot be judged.
    """
    named = sorted({name for expectation in suite.each for name in expectation.columns})
    table = _table(rows, check, named, keep)
    strays = table.loc[~table["time_bucket"].isin(buckets), "time_bucket"]
    if len(strays):
        stray = strays.iloc[0]
        raise elsewhere(check, "a row", None if pd.isna(stray) else int(stray))
    try:
        found = list(unmet(table, suite.each, buckets))
    except CannotBeJudged as error:
        what = f"{suite.each[error.index].kind.name} cannot be judged: {error.why}"
        do = f"correct it, or cast the column in the SELECT of {check.file}"
        raise suite.error(error.index, what, do) from None
    return local_rows(rows.sparkSession, _findings(table, check, suite.each, found), finding.SCHEMA)


def _table(
    rows: DataFrame,
    check: UserCheck,
    named: Sequence[str],
    keep: Callable[[DataFrame], DataFrame],
) -> pd.DataFrame:
    """Collect the columns that are named, how they are shown, and the keys of the rows."""
    judged = [
        # Great Expectations compares no decimals.
        F.col(f"`{field.name}`").cast("double").alias(field.name)
        if isinstance(field.dataType, DecimalType)
        else F.col(f"`{field.name}`")
        for field in rows.schema.fields
        if field.name in {"time_bucket", *named}
    ]
    prepared = rows.select(
        *judged,
        *(shown(name).alias(_shown(name)) for name in named),
        *(column.alias(_key(name)) for name, column in key_of(rows).items()),
    )
    # Kept before it becomes a table: if that fails, Spark warns with all of its stack.
    kept = keep(prepared.limit(MOST_ROWS + 1))
    with computing(check):
        number = kept.count()
    if number > MOST_ROWS:
        what = f"the result has more than {MOST_ROWS:,} rows"
        do = "aggregate it: expectations are for one row for each time bucket, or for each key"
        raise error_in(check.file, what, do, check.select.line)
    return kept.toPandas()


def _findings(
    table: pd.DataFrame, check: UserCheck, expectations: Sequence[Expectation], found: list[Unmet]
) -> list[tuple[Any, ...]]:
    """Return a row of finding.SCHEMA for each key."""
    values = {name: table[name].tolist() for name in table.columns}
    by_key: dict[tuple[Any, ...], dict[int, list[str]]] = {}
    for each in found:
        key, evidence = (each.time_bucket, "", "", each.time_bucket), each.observed
        if each.row is not None:
            pid, tag, number = (
                values[_key(name)][each.row] for name in ("persistence_id", "tag", "number")
            )
            key = (each.time_bucket, pid, tag, number)
            named = expectations[each.index].columns
            evidence = ", ".join(f"{name}={values[_shown(name)][each.row]}" for name in named)
        by_key.setdefault(key, {}).setdefault(each.index, []).append(evidence)
    return [
        (
            bucket,
            check.check.name,
            pid,
            tag,
            number,
            None,
            check.prefix
            + "; ".join(
                _detail(expectations[place], evidence) for place, evidence in sorted(places.items())
            ),
        )
        for (bucket, pid, tag, number), places in by_key.items()
    ]


def _detail(expectation: Expectation, evidence: Sequence[str]) -> str:
    """Return an expectation and what does not meet it, in a clause."""
    rows = f" ({len(evidence):,} rows)" if len(evidence) > 1 else ""
    return f"{expectation}: {min(evidence)}{rows}"


def _key(name: str) -> str:
    return f"key of {name}"


def _shown(name: str) -> str:
    return f"{name} as shown"
