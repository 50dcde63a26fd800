"""JSON objects as structs of declared types, without any change of a value.

Spark's `from_json` rounds decimals to their scale, reads numbers as seconds since 1970 and times
without a day as times of today, turns 200 into -56 in a TINYINT, 1e400 into infinity and a long
number into the text of another, and stops at the end of the first of two objects. Here a value that
does not fit its declared type makes the object unreadable.

==========================  ====================================================================
type                        JSON
==========================  ====================================================================
TINYINT to BIGINT           a whole number in the type's range
DECIMAL                     a number, or a text of one, that the type holds without rounding
FLOAT, DOUBLE               a number, read as the nearest value; not too large
BOOLEAN                     true, false
STRING                      a text; another value as its JSON text, a number with all its digits
BINARY                      a text in base64
DATE                        a text `2026-01-31`
TIMESTAMP                   a text in ISO 8601: a day, or a day and a time, in UTC without a zone
TIMESTAMP_NTZ               the same without a zone
ARRAY, MAP, STRUCT          an array, an object
==========================  ====================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

_MARK = "\x01"
"""The character before a number that is read as text, which distinguishes it from a text."""
_TOKENS = r"""("[^"\\]*+(?:\\.[^"\\]*+)*+"|-?\d[\d.eE+\-]*+|[^"\d\-]++|-|")"""
_NUMBER = r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?"
_LONG_NUMBER = r"\d[\d.]{15}|[eE][-+]?\d{3}"
"""Finds numbers that a DOUBLE may change; Spark turns numbers into texts by way of a DOUBLE."""
_FRACTION = r"[:\[,]\s*+-?\d++[.eE]"
_DAY = r"\d{4}-\d{2}-\d{2}"
_TIME = r"\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6}0*)?)?"
_ZONE = r"(?:Z|[+-]\d{2}(?::?\d{2})?)"
_MOMENT = rf"^{_DAY}(?:[T ]{_TIME}{_ZONE}?)?$"
_LOCAL_MOMENT = rf"^{_DAY}(?:[T ]{_TIME})?$"
_INFINITE = r"""[\[:,"\s][-+]?(?:Infinity|INF)[\]},"\s]"""
_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_BINARY_NUMBERS = (T.FloatType, T.DoubleType)

_PATTERNS: Mapping[type[T.DataType], str] = {
    T.DateType: f"^{_DAY}$",
    T.TimestampType: _MOMENT,
    T.TimestampNTZType: _LOCAL_MOMENT,
}

_REFUSED = "_refused"

Form = Callable[[T.DataType], T.DataType]


def is_one_object(text: Column) -> Column:
    """Return whether a text that begins with a JSON object has nothing after the object."""
    plain = F.when(
        text.rlike("NaN|Infinity|INF"), F.regexp_replace(text, "NaN|[-+]?(?:Infinity|INF)", "0")
    ).otherwise(text)
    number = F.json_array_length(F.concat(F.lit("["), plain, F.lit("]")))
    return F.coalesce((number == 1) & text.rlike(r"\}\s*$"), F.lit(False))


def with_values(
    frame: DataFrame, name: str, text: Column, fields: T.StructType, unreadable: str
) -> DataFrame:
    """Add the struct of a JSON text as the column `name`.

    `text` may be invalid JSON; null gives null. A field of `fields` that the object lacks is null.
    `unreadable` is a further field of the struct (string), null if everything fits. Otherwise it
    lists the fields that do not fit their types, except those that Spark itself cannot read; it is
    empty if there are no others, or if the text has more than one object.
    """
    care = _needs_care(text, fields)
    parts = {
        f"{name}_text": text,
        f"{name}_typed": _parsed(F.when(~care, text), fields, unreadable, _in_type),
        f"{name}_exact": _parsed(F.when(care, _marked(text)), fields, unreadable, _in_text),
    }
    original, typed, exact = map(F.col, parts)
    forms: list[tuple[Column, Form]] = [(typed, _in_type), (exact, _in_text)]
    refused = F.coalesce(*(F.col(f"{part}")[unreadable] for part in list(parts)[1:]))
    marks = {
        f"{name}_refused": refused.isNotNull() | ~is_one_object(original),
        f"{name}_unfit": F.concat_ws(", ", *(_unfit(*form, fields, original) for form in forms)),
    }
    is_refused, unfit = map(F.col, marks)
    mark = F.when(is_refused | (unfit != ""), unfit).alias(unreadable)
    value = F.coalesce(*(_value(*form, fields, mark) for form in forms))
    # Separate columns, because inside an expression each use would be evaluated again. And Spark
    # does not push a condition on the struct below an `explode`, which would repeat all of this.
    struct = F.explode(F.array(value))
    return frame.withColumns(parts).withColumns(marks).withColumn(name, struct).drop(*parts, *marks)


def is_refused(text: Column, field: T.StructField) -> Column:
    """Return whether Spark itself cannot read a field of a JSON text."""
    parsed = _parsed(text, T.StructType([field]), _REFUSED, _in_type)
    return parsed[_REFUSED].isNotNull()


def misfit(field: T.StructField) -> str:
    """Return the fault of a value that does not fit a field, in one clause."""
    return f"{field.name} is not {field.dataType.simpleString().upper()}"


def _needs_care(text: Column, fields: T.StructType) -> Column:
    """Return whether a text has numbers that Spark would change unless they are read as text."""
    has_text = _has(fields, T.StringType)
    if not has_text and not _has(fields, T.DecimalType):
        return F.lit(False)
    is_long = text.rlike(_LONG_NUMBER)
    return F.coalesce(is_long | text.rlike(_FRACTION) if has_text else is_long, F.lit(False))


def _has(kind: T.DataType, *types: type[T.DataType]) -> bool:
    match kind:
        case T.StructType():
            return any(_has(field.dataType, *types) for field in kind.fields)
        case T.ArrayType():
            return _has(kind.elementType, *types)
        case T.MapType():
            return _has(kind.valueType, *types)
    return isinstance(kind, types)


def _marked(text: Column) -> Column:
    """Return a JSON text in which each number is a text that starts with the mark."""
    tokens = F.regexp_extract_all(text, F.lit(_TOKENS), 1)
    escaped = F.lit('"\\u0001')
    return F.array_join(
        F.transform(
            tokens,
            lambda token: F.when(
                token.rlike(r"^-?\d"), F.concat(escaped, token, F.lit('"'))
            ).otherwise(token),
        ),
        "",
    )


def _in_type(kind: T.DataType) -> T.DataType:
    """Return the type as which Spark reads a type: text where Spark's own reading is not exact."""
    match kind:
        case T.ByteType():
            return T.ShortType()
        case T.DecimalType() | T.DateType() | T.TimestampType() | T.TimestampNTZType():
            return T.StringType()
    return _nested(kind, _in_type)


def _in_text(kind: T.DataType) -> T.DataType:
    """Return the type as which Spark reads a type in a text whose numbers are marked texts."""
    if isinstance(kind, (*_WHOLE, *_BINARY_NUMBERS)):
        return T.StringType()
    return _in_type(kind) if _is_leaf(kind) else _nested(kind, _in_text)


def _is_leaf(kind: T.DataType) -> bool:
    return not isinstance(kind, T.StructType | T.ArrayType | T.MapType)


def _nested(kind: T.DataType, form_of: Form) -> T.DataType:
    match kind:
        case T.StructType():
            return T.StructType(
                [T.StructField(field.name, form_of(field.dataType)) for field in kind.fields]
            )
        case T.ArrayType():
            return T.ArrayType(form_of(kind.elementType))
        case T.MapType():
            return T.MapType(kind.keyType, form_of(kind.valueType))
    return kind


def _parsed(text: Column, fields: T.StructType, unreadable: str, form_of: Form) -> Column:
    read_fields = [T.StructField(field.name, form_of(field.dataType)) for field in fields.fields]
    schema = T.StructType([*read_fields, T.StructField(unreadable, T.StringType())])
    return F.from_json(
        text, schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": unreadable}
    )


def _unfit(raw: Column, form_of: Form, fields: T.StructType, original: Column) -> Column:
    """Return the faults of the values in a struct of `_parsed`; empty for none, null for null."""
    unfit = [
        F.when(_misfits(raw[field.name], field.dataType, form_of, original), F.lit(misfit(field)))
        for field in fields.fields
    ]
    return F.when(raw.isNotNull(), F.concat_ws(", ", *unfit))


def _value(raw: Column, form_of: Form, fields: T.StructType, mark: Column) -> Column:
    """Return a struct of `_parsed` with the declared types; null gives null."""
    values = [
        _converted(raw[field.name], field.dataType, form_of).alias(field.name)
        for field in fields.fields
    ]
    return F.when(raw.isNotNull(), F.struct(*values, mark))


def _misfits(value: Column, kind: T.DataType, form_of: Form, original: Column) -> Column:
    """Return whether a value, or a value inside of it, does not fit its type; null fits."""
    is_exact = form_of is _in_text
    if form_of(kind) == kind and not _has(kind, *_BINARY_NUMBERS):
        return F.lit(False)
    match kind:
        case T.StructType():
            parts = [
                _misfits(value[field.name], field.dataType, form_of, original)
                for field in kind.fields
            ]
            return reduce(lambda left, right: left | right, parts, F.lit(False))
        case T.ArrayType():
            wrong = F.exists(
                value, lambda item: _misfits(item, kind.elementType, form_of, original)
            )
        case T.MapType():
            wrong = F.exists(
                F.map_values(value),
                lambda item: _misfits(item, kind.valueType, form_of, original),
            )
        case T.ByteType() if not is_exact:
            wrong = ~value.between(-128, 127)
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            is_whole = value.rlike(rf"^{_MARK}-?\d+$")
            wrong = ~is_whole | _converted(value, kind, form_of).isNull()
        case T.FloatType() | T.DoubleType():
            number = _converted(value, kind, form_of)
            is_infinite = F.abs(number) == float("inf")
            wrong = is_infinite & ~original.rlike(_INFINITE)
            if is_exact:
                is_number = value.rlike(rf"^(?:{_MARK}{_NUMBER}|NaN|[+-]?(?:Infinity|INF))$")
                wrong = wrong | ~is_number | number.isNull()
        case T.DecimalType():
            wrong = _is_rounded(value, kind, form_of)
        case _:
            wrong = ~value.rlike(_PATTERNS[type(kind)])
            wrong = wrong | _converted(value, kind, form_of).isNull()
    return value.isNotNull() & F.coalesce(wrong, F.lit(True))


def _is_rounded(value: Column, kind: T.DecimalType, form_of: Form) -> Column:
    """Return whether a text is no number, or the type would change its value."""
    number, decimal = _unmarked(value), _converted(value, kind, form_of)
    loses_digits = number.rlike(rf"\.\d{{{kind.scale}}}\d*[1-9]")
    # With an exponent digits cannot be counted; such numbers hardly have more than a DOUBLE's.
    is_moved = number.cast("double") != decimal.cast("double")
    is_wrong = F.when(number.rlike("[eE]"), is_moved).otherwise(loses_digits)
    return ~number.rlike(f"^{_NUMBER}$") | decimal.isNull() | is_wrong


def _converted(value: Column, kind: T.DataType, form_of: Form) -> Column:
    """Return a value of `_parsed` in its declared type."""
    is_exact = form_of is _in_text
    if form_of(kind) == kind and not (is_exact and _has(kind, T.StringType)):
        return value
    match kind:
        case T.StructType():
            parts = [
                _converted(value[field.name], field.dataType, form_of).alias(field.name)
                for field in kind.fields
            ]
            return F.when(value.isNotNull(), F.struct(*parts))
        case T.ArrayType():
            return F.transform(value, lambda item: _converted(item, kind.elementType, form_of))
        case T.MapType():
            return F.transform_values(
                value, lambda _, item: _converted(item, kind.valueType, form_of)
            )
        case T.StringType():
            # In the text of an object or an array, the marks are escapes.
            plain = F.regexp_replace(value, r'"\\u0001([^"]*)"', "$1")
            is_marked = value.startswith(_MARK)
            return F.when(is_marked, _unmarked(value)).otherwise(
                F.when(value.contains(r"\u0001"), plain).otherwise(value)
            )
    return _unmarked(value).cast(kind) if form_of(kind) == T.StringType() else value.cast(kind)


def _unmarked(value: Column) -> Column:
    return F.regexp_replace(value, f"^{_MARK}", "")
