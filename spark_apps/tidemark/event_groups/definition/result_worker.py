"""Checks and evaluates one SQL expression in its own process: a line of JSON in, one out.

It is run as a script and imports nothing of Tidemark. DuckDB's timer does not interrupt functions,
its memory limit does not count what functions allocate, and a text can overflow its stack. The run
is not affected: it kills this process at the timeout.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import duckdb

_MEMORY = 2 * 2**30
"""Bytes of address space, of which DuckDB and Python need half a gigabyte."""
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "lock_configuration": "true",
    "memory_limit": "256MB",
    "threads": "1",
}
_NODES = frozenset(
    """
    BETWEEN CASE CAST COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA OPERATOR
    WINDOW
    """.split()
)
"""The kinds of DuckDB's nodes that an expression may have; `LAMBDA` is also JSON's arrow."""
_TYPES = frozenset(
    """
    BIGINT BOOLEAN DATE DECIMAL DOUBLE FLOAT HUGEINT INTEGER INTERVAL SMALLINT TIME TIMESTAMP
    TIMESTAMP_MS TIMESTAMP_NS TIMESTAMP_S TINYINT UBIGINT UHUGEINT UINTEGER USMALLINT UTINYINT UUID
    VARCHAR
    """.split()
) | {"TIMESTAMP WITH TIME ZONE"}
"""The scalar types that an expression may cast to."""
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
"""The functions and operators that an expression may call, over numbers, texts, times and JSON.
None of them reads a file, a table or a setting, waits, or returns more than one row."""


def main() -> None:
    """Answer one request: `{"refusal": ...}`, or `{"values": [...]}` or `{"error": ...}`."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    request = json.load(sys.stdin)
    print(json.dumps(_answer(request)))


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    expression = request["expression"]
    if why := refusal(expression):
        return {"refusal": why}
    if "rows" not in request:
        return {"refusal": ""}
    try:
        return {"values": _values(expression, request["kinds"], request["rows"])}
    except (duckdb.Error, MemoryError) as error:
        return {"error": str(error) or "it takes too much memory"}


def refusal(expression: str) -> str:
    """Return why a text is not one expression over the columns of a result; empty if it is."""
    try:
        duckdb.SQLExpression(expression)
        select = _syntax(f"SELECT {expression}\n")
    except RecursionError:
        return "it is nested too deeply"
    except duckdb.Error as error:
        return str(error)
    if select is None or len(select["select_list"]) != 1:
        return "it is not one expression"
    plain = {**_syntax("SELECT 1"), "select_list": select["select_list"]}
    if select != plain:
        return "something follows the expression"
    return next(filter(None, map(_node_refusal, _nodes(select["select_list"]))), "")


def _syntax(sql: str) -> Any:
    """Return DuckDB's syntax tree of one SELECT, or None; nothing is resolved or run."""
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


def _values(expression: str, kinds: Mapping[str, str], rows: list[list[Any]]) -> list[str | None]:
    with duckdb.connect(":memory:", config=_CONFIG) as connection:
        columns = ", ".join(f"{_quoted(name)} {kind}" for name, kind in kinds.items())
        connection.execute(f"CREATE TABLE result ({columns})")
        connection.executemany(f"INSERT INTO result VALUES ({', '.join('?' * len(kinds))})", rows)
        result = connection.table("result")
        value: Any = duckdb.SQLExpression(expression).cast("VARCHAR")
        try:
            rows_of_texts = result.project(value).fetchall()
        except duckdb.BinderException as error:
            if "Aggregates" not in str(error):
                raise
            rows_of_texts = result.aggregate([value]).fetchall()
    return [value for (value,) in rows_of_texts]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


if __name__ == "__main__":
    main()
