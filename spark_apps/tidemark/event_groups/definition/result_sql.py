"""SQL expressions over the rows of a result, evaluated by DuckDB, which needs no JVM.

A column of whole numbers is a HUGEINT, one of other numbers a DECIMAL or, where that is too narrow,
a DOUBLE, one of truth values a BOOLEAN; all others, times and uuids among them, are texts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import duckdb

from tidemark.text import one_line

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "lock_configuration": "true",
    "memory_limit": "256MB",
    "threads": "1",
}
_DIGITS = 38
_NODES = frozenset(
    """
    BETWEEN CASE CAST COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA OPERATOR
    WINDOW
    """.split()
)
"""The kinds of DuckDB's nodes that an expression may have; `LAMBDA` is JSON's arrow, too."""
_TYPES = frozenset(
    """
    BIGINT BOOLEAN DATE DECIMAL DOUBLE FLOAT HUGEINT INTEGER INTERVAL SMALLINT TIME TIMESTAMP
    TIMESTAMP_MS TIMESTAMP_NS TIMESTAMP_S TINYINT UBIGINT UHUGEINT UINTEGER USMALLINT UTINYINT UUID
    VARCHAR
    """.split()
) | {"TIMESTAMP WITH TIME ZONE"}
"""The types of one value that it may cast to."""
_FUNCTIONS = frozenset(
    """
    cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank
    row_number
    !~~ !~~* % & * ** + - ->> / // << >> ^ ^@ abs acos add age any_value approx_count_distinct

    arbitrary arg_max arg_min argmax argmin ascii asin atan atan2 avg base64 bin bit_and

    bit_count bit_length bit_or bit_xor bool_and bool_or cbrt ceil ceiling century char_length

    character_length chr concat concat_ws constant_or_null contains corr cos cot count count_if

    count_star countif covar_pop covar_samp damerau_levenshtein date_add date_diff date_part

    date_sub date_trunc datediff datepart datesub datetrunc day dayname dayofmonth dayofweek

    dayofyear days_in_month decade decode degrees divide encode ends_with entropy epoch epoch_ms

    epoch_ns epoch_us era error even exp factorial favg fdiv first floor fmod from_base64

    from_binary from_hex fsum gamma gcd greatest group_concat hamming hash hex hour ilike_escape

    instr isfinite isinf isnan isodow isoyear jaccard jaro_similarity jaro_winkler_similarity

    json json_array json_array_length json_contains json_exists json_extract json_extract_path

    json_extract_path_text json_extract_string json_keys json_object json_quote json_type

    json_valid json_value julian kahan_sum kurtosis last last_day lcase lcm least left

    left_grapheme len length length_grapheme levenshtein lgamma like_escape listagg ln log log10

    log2 lower lpad ltrim mad make_date make_time make_timestamp make_timestamp_ms

    make_timestamp_ns make_timestamptz max max_by md5 mean median microsecond millennium

    millisecond min min_by minute mod mode month monthname multiply nanosecond nextafter

    nfc_normalize not_ilike_escape not_like_escape nullif octet_length ord pi position pow power

    prefix product quantile quantile_cont quantile_disc quarter radians regexp_escape

    regexp_extract regexp_full_match regexp_matches regexp_replace regr_avgx regr_avgy

    regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy replace reverse

    right right_grapheme round round_even roundbankers rpad rtrim second sem sha1 sha256 sign

    signbit sin skewness split_part sqrt starts_with stddev stddev_pop stddev_samp strftime

    string_agg strip_accents strlen strpos strptime substr substring substring_grapheme subtract

    suffix sum sumkahan tan time_bucket timezone timezone_hour timezone_minute to_base to_base64

    to_binary to_centuries to_days to_decades to_hex to_hours to_microseconds to_millennia

    to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp to_weeks to_years

    translate trim trunc try_strptime typeof ucase unbin unhex unicode upper url_decode

    url_encode var_pop var_samp variance wavg week weekday weekofyear weighted_avg xor year

    yearweek | || ~ ~~ ~~* ~~~

    """.split()
)
"""The functions and operators that it may call: over numbers, texts, times and JSON. None of them
reads a file, a table or a setting, waits, or makes more than one row."""


def refusal(expression: str) -> str:
    """Return why a text is no expression over the columns of a result; empty if it is one."""
    try:
        duckdb.SQLExpression(expression)
    except duckdb.Error as error:
        return one_line(str(error))
    try:
        select = _syntax(f"SELECT {expression}\n")
    except (RecursionError, duckdb.Error):
        return "it is nested too deeply"
    if select is None or len(select["select_list"]) != 1:
        return "it is not one expression"
    plain = {**_syntax("SELECT 1"), "select_list": select["select_list"]}
    if select != plain:
        return "something follows the expression"
    return next(filter(None, map(_node_refusal, _nodes(select["select_list"]))), "")


def _syntax(sql: str) -> Any:
    """Return what DuckDB's parser makes of one SELECT, or None; nothing is resolved or run."""
    with duckdb.connect(":memory:", config=_CONFIG) as connection:
        [(text,)] = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    parsed = json.loads(text)
    if parsed["error"] or len(parsed["statements"]) != 1:
        return None
    return parsed["statements"][0]["node"]


def _nodes(part: Any) -> Iterator[dict[str, Any]]:
    """Return the expressions in a part of DuckDB's syntax tree."""
    parts = [part]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            parts += part.values()
            if "class" in part:
                yield part
        elif isinstance(part, list):
            parts += part


def _node_refusal(node: Mapping[str, Any]) -> str:
    kind = node["class"]
    if kind not in _NODES:
        return f"{kind.lower().replace('_', ' ')} is not allowed"
    if kind in ("FUNCTION", "WINDOW"):
        name = ".".join(filter(None, (node["catalog"], node["schema"], node["function_name"])))
        # The parser writes EXTRACT and the like with this schema.
        is_listed = name.removeprefix("main.") in _FUNCTIONS
        return "" if is_listed else f"the function {name} is not allowed"
    if kind == "CAST" and node["cast_type"]["id"] not in _TYPES:
        return "a cast to that type is not allowed"
    return ""


def evaluate(
    expression: str, rows: Sequence[Mapping[str, Any]], timeout: float
) -> list[str | None]:
    """Return the values of an expression as texts: one for each row, or one of an aggregate.

    Args:
        expression: over the columns of the rows.
        rows: at least one; numbers are int or Decimal.
        timeout: in seconds.

    Raises:
        ValueError: it is not allowed or cannot be evaluated; the message says why.
    """
    if why := refusal(expression):
        raise ValueError(why)
    names = list(rows[0])
    kinds = {name: _kind([row[name] for row in rows]) for name in names}
    with duckdb.connect(":memory:", config=_CONFIG) as connection:
        columns = ", ".join(f"{_quoted(name)} {kind}" for name, kind in kinds.items())
        connection.execute(f"CREATE TABLE result ({columns})")
        connection.executemany(
            f"INSERT INTO result VALUES ({', '.join('?' * len(names))})",
            [[_value(row[name]) for name in names] for row in rows],
        )
        timer = threading.Timer(timeout, connection.interrupt)
        timer.start()
        try:
            found = _evaluated(connection.table("result"), duckdb.SQLExpression(expression))
        except duckdb.Error as error:
            raise ValueError(one_line(str(error))) from None
        finally:
            timer.cancel()
    return [value for (value,) in found]


def _evaluated(result: Any, expression: Any) -> list[tuple[str | None]]:
    value = expression.cast("VARCHAR")
    try:
        found: list[tuple[str | None]] = result.project(value).fetchall()
    except duckdb.BinderException as error:
        if "Aggregates" not in str(error):
            raise
        found = result.aggregate([value]).fetchall()
    return found


def _kind(values: Iterable[Any]) -> str:
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return "BOOLEAN"
    if not known or not all(type(value) in (int, Decimal) for value in known):
        return "VARCHAR"
    if all(type(value) is int and abs(value) < 1 << 126 for value in known):
        return "HUGEINT"
    numbers = [Decimal(value).as_tuple() for value in known]
    scale = max(-number.exponent for number in numbers if isinstance(number.exponent, int))
    scale = max(scale, 0)
    whole = max(len(number.digits) + int(number.exponent) for number in numbers)
    return f"DECIMAL({_DIGITS}, {scale})" if scale + max(whole, 0) <= _DIGITS else "DOUBLE"


def _value(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value, default=str)
    return str(value) if isinstance(value, Decimal) else value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
