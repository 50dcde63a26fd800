"""SQL expressions over the rows of a result, evaluated by DuckDB, which needs no JVM.

A column of whole numbers is a HUGEINT, one of other numbers a DECIMAL or, where that is too narrow,
a DOUBLE, one of truth values a BOOLEAN; all others, times and uuids among them, are texts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
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


def refusal(expression: str) -> str:
    """Return why a text is no expression; empty if it is one."""
    try:
        duckdb.SQLExpression(expression)
    except duckdb.Error as error:
        return one_line(str(error))
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
        ValueError: it cannot be evaluated; the message says why.
    """
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
