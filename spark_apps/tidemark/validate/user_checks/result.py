"""The result of a check's SELECT: the key of its rows, and its errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.errors import DefinitionError, root_cause
from tidemark.spark.row_errors import is_of_rows
from tidemark.user_files.header import error_in
from tidemark.user_sql.evaluate import SHOWN_CHARACTERS
from tidemark.validate.user_checks.definition import UserCheck

KEY = {"time_bucket": "bigint", "persistence_id": "string", "tag": "string", "number": "bigint"}
"""The columns of a result that become the key of a finding.

The first is required, or rejected if the source has no time; the others may be absent.
"""


def require_key(check: UserCheck, rows: DataFrame) -> None:
    """Reject a result whose time bucket or another column of the key does not fit.

    Raises:
        DefinitionError: with file and line.
    """
    types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    if len(types) < len(rows.columns):
        problem = "the result has a column twice"
        raise error_in(check.file, problem, "name each of them once, with AS", check.select.line)
    if check.source.has_time and "time_bucket" not in types:
        raise error_in(
            check.file,
            "the result has no time_bucket",
            "select it: a finding belongs to the time bucket whose run found it",
            check.select.line,
        )
    if not check.source.has_time and "time_bucket" in types:
        raise error_in(
            check.file,
            f"the result has a time_bucket, and a finding of {check.source} belongs to none",
            "name it otherwise, such as `time_bucket AS number`",
            check.select.line,
        )
    for name, kind in KEY.items():
        if types.get(name, kind) != kind:
            problem = f"{name} is {types[name]}, not {kind}"
            raise error_in(check.file, problem, "cast it, or name it otherwise", check.select.line)


def key_of(rows: DataFrame) -> dict[str, Column]:
    """Return the columns of the key except the time bucket.

    An absent column is "", and an absent number is the time bucket: a settlement applies to these
    columns, so it does not apply to other time buckets.
    """
    defaults = {"persistence_id": F.lit(""), "tag": F.lit(""), "number": F.col("time_bucket")}
    return {
        name: F.coalesce(F.col(name), default) if name in rows.columns else default
        for name, default in defaults.items()
    }


def shown(name: str) -> Column:
    """Return the start of a column's value, for people."""
    text = F.substring(F.col(f"`{name}`").cast("string"), 1, SHOWN_CHARACTERS)
    return F.coalesce(text, F.lit("null"))


@contextmanager
def computing(check: UserCheck) -> Iterator[None]:
    """Turn errors of the block, which computes the result, into one line.

    Raises:
        DefinitionError: the rows or the SQL make the computation fail.
    """
    try:
        yield
    except Exception as error:
        if not is_of_rows(error):
            raise
        problem = f"the check cannot be computed: {root_cause(error)}"
        raise error_in(check.file, problem, "correct it", check.select.line) from None


def wrong_time_bucket(check: UserCheck, rows: str, time_bucket: object) -> DefinitionError:
    """Return the error for `rows` (such as "a row") of a time bucket that is not validated."""
    problem = f"{rows} is of time bucket {time_bucket}, which is not validated"
    do = "select the time_bucket of the tables"
    return error_in(check.file, problem, do, check.select.line)
