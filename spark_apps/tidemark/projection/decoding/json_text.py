"""What Python decoders have in common: a payload becomes JSON text, or the cause why it does not.

The text goes back to the JVM, where Spark reads it as it reads JSON payloads. So all of them have
the same rules for names and types, and a value of the wrong type is a matter of its event alone.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID

import numpy as np
import pandas as pd
from cbor2 import undefined

from tidemark.text import one_line

Translation = tuple[str | None, str | None]
"""The payload as JSON text and the cause why it cannot be read; one of them is None."""


class Translator(Protocol):
    """One rule's decoder in a Python worker; it travels there by pickle."""

    def __call__(self, payloads: Sequence[bytes]) -> list[Translation]:
        """Return a translation for each payload, in the order of the payloads; never fail."""


class UnreadablePayload(Exception):
    """A payload that its decoder cannot read; the text is the cause for quarantine."""


def one_by_one(
    decode: Callable[[bytes], str],
    payloads: Sequence[bytes],
    describe: Callable[[Exception], str] = lambda error: f"{type(error).__name__}: {error}",
) -> list[Translation]:
    """Translate each payload by itself; an error of `decode` is the cause of that event alone."""
    translations: list[Translation] = []
    for payload in payloads:
        try:
            translations.append((decode(payload), None))
        except UnreadablePayload as error:
            translations.append((None, one_line(str(error))))
        except Exception as error:
            translations.append((None, one_line(describe(error))))
    return translations


def to_json(fields: Mapping[str, Any]) -> str:
    """Encode an event as JSON text: bytes as base64, times in ISO 8601, as Spark reads them.

    Raises:
        TypeError: a value, or the name of a field, has no form in JSON.
        ValueError: the value contains itself, or a number is too long.
    """
    return _ENCODER.encode(fields)


def _plain(value: Any) -> Any:
    """Return the JSON form of a value that JSON has no type for."""
    if value is undefined or value is pd.NA or value is pd.NaT:
        return None
    for types, form in _FORMS:
        if isinstance(value, types):
            return form(value)
    raise TypeError(f"a value of type {type(value).__name__} has no form in JSON")


_ENCODER = json.JSONEncoder(default=_plain, separators=(",", ":"))


def _number(value: Decimal) -> float | str:
    # As text Spark reads it into a DECIMAL with all of its digits; a DOUBLE takes numbers only.
    nearest = float(value)
    return nearest if value.is_finite() and Decimal(repr(nearest)) == value else str(value)


_FORMS: Sequence[tuple[Any, Callable[[Any], Any]]] = (
    (bytes | bytearray | memoryview, lambda value: base64.b64encode(value).decode("ascii")),
    (datetime | date | time, lambda value: value.isoformat()),
    (Decimal, _number),
    (np.generic | np.ndarray, lambda value: value.tolist()),
    (Mapping, dict),
    (Set, list),
    (UUID, str),
)
"""What JSON does not know, with the form that Spark reads back."""
