"""Decodes the records of a frame: most by Spark (`spark_decoder.py`), all others in Python.

`record.decode` decides what is malformed, and why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

from tidemark.journals.kafka.wire import record, spark_decoder
from tidemark.journals.kafka.wire.fields import Malformed
from tidemark.journals.kafka.wire.shapes import DECODED, RECORDS
from tidemark.spark.shapes import ddl, shaped

_OUTSIDE = ("topic", "partition", "offset", "timestamp")
_CONTENT = {name: kind for name, kind in DECODED.items() if name not in _OUTSIDE}
_STRUCT = ddl(_CONTENT)
_NOTHING: dict[str, Any] = dict.fromkeys(_CONTENT)
_READ = ("timestamp", "key", "value", "headers")


@shaped(records=RECORDS, returns=DECODED)
def decoded(records: DataFrame) -> DataFrame:
    """Decode records."""
    decoded_by_spark = spark_decoder.with_usual(records, _CONTENT)
    unusual = (F.when(F.col("usual").isNull(), F.col(name)) for name in _READ)
    content = F.coalesce("usual", _by_python()(*unusual))
    return decoded_by_spark.select(*_OUTSIDE, content.alias("content")).select(
        *_OUTSIDE, *(F.col("content")[name].alias(name) for name in _CONTENT)
    )


def row(kafka_record: record.Record) -> dict[str, Any]:
    """Return the columns of a decoded record, without those that are null."""
    try:
        result = record.decode(kafka_record)
    except Malformed as error:
        # A key that is not UTF-8 is no journal's, but its record needs an id.
        key = (kafka_record.key or b"").decode("utf-8", "backslashreplace")
        return {"id": key, "cause": str(error)}
    if result is None:
        return {}
    content = {
        "id": result.id,
        "action": result.action.type.value,
        "origin": result.action.origin,
        "version": result.action.version,
    }
    payload = result.payload
    if payload is None:
        return {**content, "to": result.action.to}
    expiry = payload.expire_after
    return content | {
        "metadata": result.metadata,
        "expire_after": None if expiry is None else expiry.nanoseconds,
        "headers": dict(result.headers or {}),
        "events": [
            {
                "seq_nr": event.seq_nr,
                "tags": sorted(event.tags),
                "payload_type": event.payload_type,
                "payload_txt": event.text,
                "payload_bin": event.binary,
            }
            for event in payload.events
        ],
    }


def _by_python() -> Callable[..., Column]:
    def rows(
        timestamps: pd.Series, keys: pd.Series, values: pd.Series, headers: pd.Series
    ) -> pd.DataFrame:
        # The columns of usual records, which are most, are null here, and so are their results.
        is_unusual = timestamps.notna() | keys.notna() | values.notna() | headers.notna()
        if not is_unusual.any():
            nulls = [None] * len(is_unusual)
            return pd.DataFrame(dict.fromkeys(_CONTENT, nulls), dtype="object")
        records = zip(is_unusual, timestamps, keys, values, headers, strict=True)
        contents = [
            _NOTHING | row(_record(*fields)) if unusual else _NOTHING
            for unusual, *fields in records
        ]
        return pd.DataFrame(contents, columns=list(_CONTENT), dtype="object")

    # The stubs require the kind of the function, which pyspark takes from its type hints.
    udf: Callable[..., Column] = pandas_udf(rows, _STRUCT)  # type: ignore[call-overload]
    return udf


def _record(timestamp: Any, key: bytes | None, value: bytes | None, headers: Any) -> record.Record:
    """Return a record from the columns of a frame."""
    pairs = [(header["key"], header["value"]) for header in ([] if headers is None else headers)]
    return record.Record(key, None if pd.isna(timestamp) else timestamp, pairs, value)
