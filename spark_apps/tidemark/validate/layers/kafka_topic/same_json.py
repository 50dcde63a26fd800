"""The comparison of JSON payloads by value: releases of kafka-journal format them differently."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
from pyspark.sql import Column
from pyspark.sql.pandas.functions import pandas_udf

from tidemark.journals.kafka.wire import json_text


def normal_json(text: Column) -> Column:
    """Return the same text for all texts of equal values; null stays null.

    The payloads pass through Python, so use it only for suspect rows.
    """
    return _by_python()(text)


def _by_python() -> Callable[..., Column]:
    def normal(texts: pd.Series) -> pd.Series:
        return texts.map(json_text.normal, na_action="ignore")

    # The stubs want the kind of the function, which pyspark takes from its type hints.
    udf: Callable[..., Column] = pandas_udf(normal, "string")  # type: ignore[call-overload]
    return udf
