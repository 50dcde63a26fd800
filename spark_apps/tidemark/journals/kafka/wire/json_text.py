"""JSON as kafka-journal keeps it: parsed, and written again without white space.

Key order is kept; of a repeated key the first position and the last value count. Numbers are
decimals of at most 34 significant digits without trailing zeros. Source: play-json's values, which
kafka-journal reads and writes (docs/real-systems.md, "Wire format").
"""

from __future__ import annotations

import json
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import NoReturn, TypeAlias

Json: TypeAlias = "bool | int | Decimal | str | list[Json] | dict[str, Json] | None"

_DIGITS = 34
_MAX_DIGITS = 310
_MAX_SCALE = 6178
"""The limits of play-json."""
_MOST_DEPTH = 200
"""The deepest nesting of values, so that all parsed values can be written again."""
_PLAIN_ABOVE, _PLAIN_BELOW = Decimal("1e-10"), Decimal("1e20")
_DECIMAL128 = Context(prec=_DIGITS, rounding=ROUND_HALF_EVEN, Emin=-999999, Emax=999999)


def parse(text: str) -> Json:
    """Parse JSON, strictly by its standard.

    Raises:
        ValueError: it is not JSON, or has a number that kafka-journal does not read.
    """
    try:
        value: Json = json.loads(
            text, parse_int=_integer, parse_float=_number, parse_constant=_refuse
        )
    except RecursionError:
        raise _too_deep() from None
    if text.count("[") + text.count("{") > _MOST_DEPTH:
        _require_shallow(value, _MOST_DEPTH)
    return value


def shown(value: Json) -> str:
    """Return the beginning of a value as JSON, for a message."""
    return render(value)[:40]


def render(value: Json) -> str:
    """Write a value as kafka-journal does."""
    match value:
        case dict():
            pairs = (f"{_text(name)}:{render(item)}" for name, item in value.items())
            return f"{{{','.join(pairs)}}}"
        case list():
            return f"[{','.join(map(render, value))}]"
        case str():
            return _text(value)
        case Decimal():
            return _decimal(value)
        case _:
            return json.dumps(value)


def normal(text: str) -> str:
    """Return the same text for all texts of equal values; a text that is no JSON is unchanged.

    The order of keys and the form of numbers do not count.
    """
    try:
        return render(_sorted(parse(text)))
    except ValueError:
        return text


def _sorted(value: Json) -> Json:
    match value:
        case dict():
            return {name: _sorted(value[name]) for name in sorted(value)}
        case list():
            return [_sorted(item) for item in value]
        case _:
            return value


def _require_shallow(value: Json, levels: int) -> None:
    if not isinstance(value, dict | list):
        return
    if levels == 0:
        raise _too_deep()
    for item in value.values() if isinstance(value, dict) else value:
        _require_shallow(item, levels - 1)


def _too_deep() -> ValueError:
    return ValueError("its values lie too deep in each other")


def _integer(digits: str) -> int | Decimal:
    """Parse an integer; short ones, which are most, need no decimal."""
    return int(digits) if len(digits) <= 20 else _number(digits)


def _number(text: str) -> Decimal:
    try:
        exact = Decimal(text)
    except InvalidOperation:
        raise _too_large(text) from None
    _sign, digits, exponent = exact.as_tuple()
    if len(digits) > _MAX_DIGITS or abs(int(exponent)) > _MAX_SCALE:
        raise _too_large(text)
    return _DECIMAL128.plus(exact)


def _too_large(text: str) -> ValueError:
    return ValueError(f"the number {text[:40]} is too large or too precise")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _decimal(number: Decimal) -> str:
    stripped = number.normalize(_DECIMAL128)
    if not stripped:
        return "0"
    if not _PLAIN_ABOVE < abs(stripped) < _PLAIN_BELOW:
        return str(stripped)
    plain = f"{stripped:f}"
    # With a fraction, Decimal writes an exponent again below 1E-6.
    return str(Decimal(plain)) if "." in plain else plain


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
