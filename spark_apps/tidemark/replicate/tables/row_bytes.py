"""An upper bound of the bytes of a row of journal in CQL.

The connector adds up its own estimate of rows until a batch is full. This bound is never below that
estimate, so rows that fit by this bound fit.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

_FIXED_BYTES = 256
"""More than the columns of a row take that are not text."""
_OF_AN_ELEMENT = 8
"""Bytes of the length of a text in a set or a map."""
_TEXTS = ("topic", "id", "origin", "version", "metadata")


def row_bytes(event: Column) -> Column:
    """Return the bytes of the row of an event.

    `event` has `tags`, `payload_txt` and `payload_bin`; the other columns have their own names.
    """
    payload = F.coalesce(
        F.octet_length(event["payload_txt"]), F.octet_length(event["payload_bin"]), F.lit(0)
    )
    texts = reduce(Column.__add__, (F.coalesce(F.octet_length(name), F.lit(0)) for name in _TEXTS))
    headers = F.concat(F.map_keys("headers"), F.map_values("headers"))
    return payload + texts + _total(headers) + _total(event["tags"]) + _FIXED_BYTES


def _total(texts: Column) -> Column:
    """Return the bytes of an array of texts; 0 if it is null."""
    # No loop over the elements, since Spark would not compile it.
    of_texts = F.octet_length(F.array_join(texts, "")) + _OF_AN_ELEMENT * F.size(texts)
    return F.coalesce(of_texts, F.lit(0))
