"""Common code of Python decoders: turns a payload into JSON text, or a cause of failure.

Spark reads the text in the JVM like JSON payloads. So all decoders have the same rules for names
and types, and a value of the wrong type affects only its event.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID

import numpy as np
import pandas as pd
from cbor2 import undefined

from tidemark.text import one_line

MOST_TEXT = 64 * 2**20
"""Most characters of JSON for a payload: four times the largest event that Cassandra stores."""
MOST_DIGITS = 1_000
"""Most digits of a number that Jackson, with which Spark reads JSON, accepts."""
MOST_EXPONENT = 999
"""Largest absolute exponent of a decimal: Spark writes a DECIMAL with all of its zeros."""
Translation = tuple[str | None, str | None]
"""The payload as JSON text and the cause why it cannot be read; one of them is None."""


class Translator(Protocol):
    """The decoder of a rule in a Python worker; it must be picklable."""

    def __call__(self, payloads: Sequence[bytes]) -> Iterator[Translation]:
        """Yield a translation for each payload, in the order of the payloads; never fail.

        The texts are made lazily, so that the caller can limit how many are in memory.
        """


class UnreadablePayload(Exception):
    """A decoder cannot read a payload; the text is the cause for quarantine."""


def one_by_one(
    decode: Callable[[bytes], str],
    payloads: Sequence[bytes],
    describe: Callable[[Exception], str] = lambda error: f"{type(error).__name__}: {error}",
) -> Iterator[Translation]:
    """Translate each payload separately; an error of `decode` becomes the cause of its event."""
    for payload in payloads:
        try:
            translation: Translation = decode(payload), None
        except UnreadablePayload as error:
            translation = None, one_line(str(error))
        except MemoryError:
            translation = None, "it takes more memory than a Python worker has"
        except Exception as error:
            translation = None, one_line(describe(error))
        yield translation


def to_json(fields: Mapping[str, Any], *, is_tree: bool = False) -> str:
    """Encode an event as JSON text for Spark: bytes as base64, times in ISO 8601.

    `is_tree` says that no value is referenced several times, so that the text is not much longer
    than the payload. Otherwise the length is computed before the text is made, which takes longer.

    Raises:
        TypeError: a value, or the name of a field, has no form in JSON.
        UnreadablePayload: the text or a number is too long, or a value contains itself.
    """
    if is_tree or _Lengths().of(fields) <= MOST_TEXT:
        text = _ENCODER.encode(fields)
        if len(text) <= MOST_TEXT:
            return text
    raise too_much_text()


def too_much_text() -> UnreadablePayload:
    """Return the error for a payload whose JSON text would be too long."""
    return UnreadablePayload(f"more than {MOST_TEXT:,} characters of JSON")


def too_many_digits() -> UnreadablePayload:
    """Return the error for a number that is too long."""
    return UnreadablePayload(f"a number of more than {MOST_DIGITS:,} digits")


class _Lengths:
    """Computes a lower bound of the length of values as JSON text, without making the text.

    A value with several references counts at each, but is measured once, so that the time depends
    on the number of values in memory and not on the length of the text.
    """

    def __init__(self) -> None:
        self._length_by_id: dict[int, int] = {}
        # References to these values keep their ids from being reused.
        self._forms: list[Any] = []

    def of(self, value: Any) -> int:
        kind = type(value)
        if kind is str:
            return len(value) + 2
        if kind in _SHORTEST:
            return _SHORTEST[kind]
        if isinstance(value, int):
            return _digits(value)
        if isinstance(value, str | float):
            return 2
        key = id(value)
        length = self._length_by_id.get(key)
        if length is None:
            self._length_by_id[key] = _IN_PROGRESS
            length = self._length_by_id[key] = self._measured(value)
        elif length == _IN_PROGRESS:
            raise UnreadablePayload("a value that contains itself")
        return length

    def _measured(self, value: Any) -> int:
        if isinstance(value, dict):
            names = sum([len(name) + 2 if type(name) is str else 1 for name in value])
            return names + sum(map(self.of, value.values())) + 2 * len(value) + 1
        if isinstance(value, list | tuple):
            return sum(map(self.of, value)) + len(value) + 1
        form = _plain(value)
        self._forms.append(form)
        return self.of(form)


_IN_PROGRESS = -1
_SHORTEST = {float: 3, bool: 4, type(None): 4}
_LONG_NUMBER = 10**MOST_DIGITS


def _digits(value: int) -> int:
    """Return a lower bound of the number of a value's digits."""
    bits = value.bit_length()
    if bits >= _LONG_NUMBER.bit_length() and abs(value) >= _LONG_NUMBER:
        raise too_many_digits()
    return max(bits * 3 // 10, 1)


def _plain(value: Any) -> Any:
    """Return the JSON form of a value whose type JSON does not have."""
    if value is undefined or value is pd.NA or value is pd.NaT:
        return None
    for types, form in _FORMS:
        if isinstance(value, types):
            return form(value)
    raise TypeError(f"a value of type {type(value).__name__} has no form in JSON")


_ENCODER = json.JSONEncoder(default=_plain, separators=(",", ":"))


def _number(value: Decimal) -> float | str:
    text = str(value)
    if len(text) > MOST_DIGITS and len(value.as_tuple().digits) > MOST_DIGITS:
        raise too_many_digits()
    if abs(value.adjusted()) > MOST_EXPONENT:
        raise UnreadablePayload(f"a number with an exponent beyond {MOST_EXPONENT}")
    # Spark reads text into a DECIMAL with all digits, but reads a DOUBLE only from a number.
    nearest = float(value)
    return nearest if value.is_finite() and Decimal(repr(nearest)) == value else text


_FORMS: Sequence[tuple[Any, Callable[[Any], Any]]] = (
    (bytes | bytearray | memoryview, lambda value: base64.b64encode(value).decode("ascii")),
    (datetime | date | time, lambda value: value.isoformat()),
    (Decimal, _number),
    (np.generic | np.ndarray, lambda value: value.tolist()),
    (Mapping, dict),
    (Set, list),
    (UUID, str),
)
"""The types that JSON does not have, with the form that Spark reads back."""
