"""The functions that statements may call: those of Cassandra that return the same value each time.

Source: org.apache.cassandra.cql3.functions.NativeFunctions (5.0.9), without uuid() and those that
read the clock. User-defined functions are left out, because they may return other values.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tidemark.event_groups.definition.tokens import Token

_SYNTAX = ("SELECT", "WHERE", "AND", "IN", "CAST", "TTL", "WRITETIME", "MAXWRITETIME")
"""Words of CQL before a bracket, which cannot be unquoted names of user-defined functions."""
_TYPES = (
    *("ascii", "bigint", "boolean", "counter", "date", "decimal", "double", "duration", "empty"),
    *("float", "inet", "int", "smallint", "text", "time", "timestamp", "timeuuid", "tinyint"),
    *("uuid", "varchar", "varint"),
)
_WITH_OLDER_NAMES = (
    *(f"{kind}_as_blob" for kind in _TYPES),
    *(f"blob_as_{kind}" for kind in _TYPES),
    *("to_date", "to_timestamp", "to_unix_timestamp", "min_timeuuid", "max_timeuuid"),
    *("to_json", "from_json"),
)
"""Functions that also have a name without `_`, which was their only name before 5.0."""
_CASTS = (
    *("ascii", "bigint", "date", "decimal", "double", "float", "int", "smallint", "text"),
    *("timestamp", "tinyint", "varint"),
)
SAME_EACH_TIME = frozenset(
    {
        *_WITH_OLDER_NAMES,
        *(name.replace("_", "") for name in _WITH_OLDER_NAMES),
        *(f"cast_as_{kind}" for kind in _CASTS),
        *("count", "count_rows", "min", "max", "sum", "avg", "token"),
        *("abs", "exp", "log", "log10", "round", "floor"),
        *("map_keys", "map_values", "collection_count", "collection_min", "collection_max"),
        *("collection_sum", "collection_avg"),
        *("mask_default", "mask_hash", "mask_inner", "mask_null", "mask_outer", "mask_replace"),
        *("similarity_cosine", "similarity_dot_product", "similarity_euclidean"),
    }
)


def first_other(tokens: Sequence[Token]) -> str:
    """Return the first call of a function outside of `SAME_EACH_TIME`; empty if there is none."""
    # In an INSERT, calls are only inside brackets; the table and VALUES stand before brackets.
    is_insert = bool(tokens) and tokens[0].is_word("INSERT")
    depth = 0
    for index, (token, following) in enumerate(pairwise(tokens)):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if (
            token.kind not in ("word", "quoted")
            or following.text != "("
            or (is_insert and not depth)
        ):
            continue
        if index and tokens[index - 1].text == ".":
            return f"{tokens[index - 2].text}.{token.text}()"
        if not token.is_word(*_SYNTAX) and token.name not in SAME_EACH_TIME:
            return f"{token.text}()"
    return ""
