"""The evaluation of users' expectations: Great Expectations judges the result of a SELECT."""

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
from tidemark.validate.user_checks.result import computing, key_of, shown, wrong_time_bucket
from tidemark.validate.user_checks.suite import Suite

MOST_ROWS = 100_000
"""The largest number of rows of a result; ten for each time bucket of the largest run."""


def require_columns(suite: Suite, rows: DataFrame) -> None:
    """Reject an expectation of a column that the result does not have; no row is read.

    Raises:
        DefinitionError: with the suite's file, the expectation and the correction.
    """
    for index, expectation in enumerate(suite.expectations):
        for name in expectation.columns:
            if name not in rows.columns:
                do = f"the columns of the result are {', '.join(rows.columns)}"
                raise suite.error(index, f"unknown column {name}", do)


@shaped(returns=shapes.FINDINGS)
def unmet_expectations(
    rows: DataFrame,
    check: UserCheck,
    suite: Suite,
    buckets: Collection[int],
    keep: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """Return a finding for each key of rows, and each time bucket, that do not meet a suite.

    `rows`: the result of the SELECT. `require_columns` has accepted the suite. `buckets` (epoch ms)
    are judged.

    Raises:
        DefinitionError: a row is of another time bucket, or an expectation cannot be judged.
    """
    column_names = sorted(
        {name for expectation in suite.expectations for name in expectation.columns}
    )
    table = _table(rows, check, column_names, keep)
    strays = table.loc[~table["time_bucket"].isin(buckets), "time_bucket"]
    if len(strays):
        stray = strays.iloc[0]
        raise wrong_time_bucket(check, "a row", None if pd.isna(stray) else int(stray))
    try:
        failures = list(unmet(table, suite.expectations, buckets))
    except CannotBeJudged as error:
        problem = f"{suite.expectations[error.index].kind.name} cannot be judged: {error.why}"
        do = f"correct it, or cast the column in the SELECT of {check.file}"
        raise suite.error(error.index, problem, do) from None
    return local_rows(
        rows.sparkSession, _findings(table, check, suite.expectations, failures), finding.SCHEMA
    )


def _table(
    rows: DataFrame,
    check: UserCheck,
    column_names: Sequence[str],
    keep: Callable[[DataFrame], DataFrame],
) -> pd.DataFrame:
    """Collect the columns in use, their texts for people, and the keys of the rows.

    Raises:
        DefinitionError: there are more than MOST_ROWS rows.
    """
    judged_columns = [
        # Great Expectations compares no decimals.
        F.col(f"`{field.name}`").cast("double").alias(field.name)
        if isinstance(field.dataType, DecimalType)
        else F.col(f"`{field.name}`")
        for field in rows.schema.fields
        if field.name in {"time_bucket", *column_names}
    ]
    prepared = rows.select(
        *judged_columns,
        *(shown(name).alias(_shown(name)) for name in column_names),
        *(column.alias(_key(name)) for name, column in key_of(rows).items()),
    )
    # Computed before it is collected: if `toPandas` fails, Spark warns with its whole stack.
    result = keep(prepared.limit(MOST_ROWS + 1))
    with computing(check):
        number = result.count()
    if number > MOST_ROWS:
        problem = f"the result has more than {MOST_ROWS:,} rows"
        do = "aggregate it: expectations are for one row for each time bucket, or for each key"
        raise error_in(check.file, problem, do, check.select.line)
    return result.toPandas()


def _findings(
    table: pd.DataFrame,
    check: UserCheck,
    expectations: Sequence[Expectation],
    failures: list[Unmet],
) -> list[tuple[Any, ...]]:
    """Return a row of finding.SCHEMA for each key."""
    values = {name: table[name].tolist() for name in table.columns}
    by_key: dict[tuple[Any, ...], dict[int, list[str]]] = {}
    for failure in failures:
        bucket, row = failure.time_bucket, failure.row
        key, evidence = (bucket, "", "", bucket), failure.observed
        if row is not None:
            pid, tag, number = (
                values[_key(name)][row] for name in ("persistence_id", "tag", "number")
            )
            key = (bucket, pid, tag, number)
            columns = expectations[failure.index].columns
            evidence = ", ".join(f"{name}={values[_shown(name)][row]}" for name in columns)
        by_key.setdefault(key, {}).setdefault(failure.index, []).append(evidence)
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
                _detail(expectations[index], texts) for index, texts in sorted(by_index.items())
            ),
        )
        for (bucket, pid, tag, number), by_index in by_key.items()
    ]


def _detail(expectation: Expectation, evidence: Sequence[str]) -> str:
    """Return an expectation and an example that does not meet it, as a clause."""
    rows = f" ({len(evidence):,} rows)" if len(evidence) > 1 else ""
    return f"{expectation}: {min(evidence)}{rows}"


def _key(name: str) -> str:
    return f"key of {name}"


def _shown(name: str) -> str:
    return f"{name} as shown"
