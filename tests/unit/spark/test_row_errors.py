"""Which failures of Spark jobs are of their rows."""

from __future__ import annotations

import os
import signal

import pandas as pd
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import pandas_udf

from tidemark.spark.row_errors import is_of_rows


@pytest.mark.parametrize(
    ("trace", "is_row"),
    [
        ("ValueError: bad", True),
        ("ValueError: it quotes tidemark.errors.PostgresUnavailable: lost", True),
        ("tidemark.errors.PostgresUnavailable: lost", False),
        ("tidemark.errors.SchemaMismatch: no table", False),
        ("tidemark.errors.InvalidInput: permission denied for table t", False),
        ("tidemark.errors.InvalidInput: not a number", True),
    ],
)
def test_a_session_of_postgresql_that_fails_is_not_of_its_rows(trace: str, is_row: bool) -> None:
    assert is_of_rows(PythonException(f"Traceback (most recent call last):\n{trace}\n")) is is_row


def test_a_python_worker_that_is_killed_is_of_its_rows(spark: SparkSession) -> None:
    def killed(numbers: pd.Series) -> pd.Series:
        os.kill(os.getpid(), signal.SIGKILL)
        return numbers

    # The stubs want the kind of the function, which pyspark takes from its type hints.
    udf = pandas_udf(killed, "long")  # type: ignore[call-overload]
    with pytest.raises(Py4JJavaError) as lost:
        spark.range(1).select(udf("id")).collect()
    assert is_of_rows(lost.value)
