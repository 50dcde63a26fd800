"""SQL expressions over the rows of a result, evaluated by DuckDB, which needs no JVM.

A column of integers is a HUGEINT; one of other numbers a DECIMAL or, if that is too narrow, a
DOUBLE; one of truth values a BOOLEAN. All others, including times and uuids, are texts.

Each expression is checked and evaluated in its own process (`result_worker.py`), which is killed
at its timeout.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from tidemark.text import one_line

_WORKER = Path(__file__).with_name("result_worker.py")
_DIGITS = 38
_MOST_CHARACTERS = 10_000
_CHECK_S = 30.0


def refusal(expression: str) -> str:
    """Return why a text is not one expression over the columns of a result; empty if it is."""
    if len(expression) > _MOST_CHARACTERS:
        return f"it has more than {_MOST_CHARACTERS:,} characters"
    try:
        return one_line(_answer({"expression": expression}, _CHECK_S)["refusal"])
    except ValueError as error:
        return str(error)


def evaluate(
    expression: str, rows: Sequence[Mapping[str, Any]], timeout: float
) -> list[str | None]:
    """Return the values of an expression as texts: one for each row, or one of an aggregate.

    There must be at least one row; numbers are int or Decimal.

    Raises:
        ValueError: the expression is not allowed or cannot be evaluated; the message says why.
    """
    if len(expression) > _MOST_CHARACTERS:
        raise ValueError(f"it has more than {_MOST_CHARACTERS:,} characters")
    names = list(rows[0])
    request = {
        "expression": expression,
        "kinds": {name: _kind([row[name] for row in rows]) for name in names},
        "rows": [[_value(row[name]) for name in names] for row in rows],
    }
    answer = _answer(request, timeout)
    if "values" not in answer:
        raise ValueError(one_line(answer.get("refusal") or answer["error"]))
    values: list[str | None] = answer["values"]
    return values


def _answer(request: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    try:
        completed = subprocess.run(  # noqa: S603  our own script
            [sys.executable, "-P", str(_WORKER)],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"it has not ended within {timeout:g} s") from None
    if completed.returncode != 0 or not completed.stdout:
        raise ValueError("it ended DuckDB: it takes too much memory, or its values are too deep")
    answer: dict[str, Any] = json.loads(completed.stdout)
    return answer


def _kind(values: Iterable[Any]) -> str:
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, bool) for value in present):
        return "BOOLEAN"
    if not present or not all(type(value) in (int, Decimal) for value in present):
        return "VARCHAR"
    if all(type(value) is int and abs(value) < 1 << 126 for value in present):
        return "HUGEINT"
    numbers = [Decimal(value).as_tuple() for value in present]
    scale = max(-number.exponent for number in numbers if isinstance(number.exponent, int))
    scale = max(scale, 0)
    integer_digits = max(len(number.digits) + int(number.exponent) for number in numbers)
    return f"DECIMAL({_DIGITS}, {scale})" if scale + max(integer_digits, 0) <= _DIGITS else "DOUBLE"


def _value(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value, default=str)
    return str(value) if isinstance(value, Decimal) else value
