"""Checks that Spark can read the decimals of a JSON text in a bounded time.

Spark expands a DECIMAL with all of its zeros before it checks whether the value fits:
`1E100000000`, 11 bytes, takes a core for minutes, and no option of `from_json` prevents it. Jackson
rejects a number of more than a thousand digits, but not such a text for a DECIMAL. All other types
are bounded.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

UNBOUNDED = "a number whose exponent is beyond 999, or which has more than 1,000 digits"
"""The fault of a text that `is_unbounded`."""
# Spark ignores commas in a text, and a digit may be of another script, or an escape.
_SUSPICIOUS = r"[eE][-+0-9,\\\P{ASCII}]{4}"
_ESCAPE = r"\u00"
"""The escape of an `e` starts so."""
_LONG = r"""["'][^"']{1000}"""
_TEXTS = r""""(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'"""
_FAR_NUMBER = r"[0-9.][eE][+-]?0*[1-9][0-9]{3}"
_FAR_TEXT = r"[eE][+-]?[\p{Nd},]{4}"
_MOST_LENGTH = 1_000
_OBJECT, _ARRAY = "map<string,string>", "array<string>"


def is_unbounded(text: Column, fields: T.StructType) -> Column:
    """Return whether reading a JSON text takes a time out of proportion to its length.

    `text` may be invalid JSON; null is not unbounded. `fields` are the types for reading it.
    """
    if not _has_decimals(fields):
        return F.lit(False)
    # Cheap conditions, about the time of one search, that match every text that may be too long.
    is_long = (F.length(text) > _MOST_LENGTH) & text.rlike(_LONG)
    may_be_far = text.rlike(_SUSPICIOUS) | text.contains(_ESCAPE) | is_long
    outside_texts = F.regexp_replace(text, f"(?s){_TEXTS}", "")
    is_far = outside_texts.rlike(_FAR_NUMBER) | _is_far(text, fields)
    return F.coalesce(F.when(may_be_far, is_far), F.lit(False))


def _has_decimals(kind: T.DataType) -> bool:
    match kind:
        case T.StructType():
            return any(_has_decimals(field.dataType) for field in kind.fields)
        case T.ArrayType():
            return _has_decimals(kind.elementType)
        case T.MapType():
            return _has_decimals(kind.valueType)
    return isinstance(kind, T.DecimalType)


def _is_far(value: Column, kind: T.DataType) -> Column:
    """Return whether a value of a type has a decimal that is too long.

    Objects are read as maps: if an object has a name twice, Spark reads both values, and a map
    keeps both. A value that cannot be read counts as too long, since Spark may fail later in it.
    """
    match kind:
        case T.StructType():
            inner = {field.name: field.dataType for field in kind.fields}
            pairs = F.map_entries(F.from_json(value, _OBJECT))
            has_far = F.exists(pairs, lambda pair: _is_far_pair(pair, inner))
        case T.ArrayType():
            items = F.from_json(value, _ARRAY)
            has_far = F.exists(items, lambda item: _is_far(item, kind.elementType))
        case T.MapType():
            items = F.map_values(F.from_json(value, _OBJECT))
            has_far = F.exists(items, lambda item: _is_far(item, kind.valueType))
        case _:
            is_long = (F.length(value) > _MOST_LENGTH) | value.rlike(_FAR_TEXT)
            return F.coalesce(is_long, F.lit(False))
    return value.isNotNull() & F.coalesce(has_far, F.lit(True))


def _is_far_pair(pair: Column, fields: Mapping[str, T.DataType]) -> Column:
    is_far = F.lit(False)
    for name, kind in fields.items():
        if _has_decimals(kind):
            is_far = is_far | ((pair["key"] == name) & _is_far(pair["value"], kind))
    return is_far
