"""Decodes payloads with a function of the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tidemark.project.decoding.json_text import Translation, UnreadablePayload, one_by_one, to_json
from tidemark.project.definition.on_error import SKIP, OnError
from tidemark.project.definition.user_modules import ModuleTexts


@dataclass(frozen=True)
class PythonFunction:
    """The `Translator` of `python module:function`.

    The function takes a pandas Series of bytes, and returns a row for each payload in the same
    order: a DataFrame with the event's fields as columns, or a Series of dicts with them. If the
    function fails for a batch, it is called for each event alone, with the retries of the policy.

    Attributes:
        sources: texts of the function's module and those in its directory.
        module: module of the function.
        function: name of the function.
        integers: integer fields of the event, which pandas turns into floats if a value is missing.
        on_error: policy with the number of retries.
    """

    sources: ModuleTexts
    module: str
    function: str
    integers: frozenset[str]
    on_error: OnError = SKIP

    def load(self) -> Callable[[pd.Series], Any]:
        """Import the function; raise what importing its module raises.

        Raises:
            AttributeError: the module has no such function.
        """
        function = getattr(self.sources.load(self.module), self.function)
        if not callable(function):
            raise AttributeError(f"{self.function} is not a function")
        return function  # type: ignore[no-any-return]

    def __call__(self, payloads: Sequence[bytes]) -> Iterator[Translation]:
        """Yield a translation for each payload, in the order of the payloads; never fail."""
        function = self.load()

        def alone(payload: bytes) -> str:
            return self.on_error.attempt(lambda: self._text(self._rows(function, [payload])[0]))

        try:
            rows = self._rows(function, payloads)
        except Exception:
            yield from one_by_one(alone, payloads, self.sources.describe)
            return
        for payload, row in zip(payloads, rows, strict=True):
            try:
                yield self._text(row), None
            except Exception:
                yield from one_by_one(alone, [payload], self.sources.describe)

    def _rows(self, function: Callable[[pd.Series], Any], payloads: Sequence[bytes]) -> list[Any]:
        result = function(pd.Series(list(payloads), dtype="object"))
        rows = result.to_dict("records") if isinstance(result, pd.DataFrame) else list(result)
        if len(rows) != len(payloads):
            raise UnreadablePayload(f"{self.function} returned {len(rows)} rows for one event")
        return rows

    def _text(self, row: Any) -> str:
        if not isinstance(row, dict):
            raise UnreadablePayload(f"{self.function} returned {type(row).__name__}, not a dict")
        return to_json({name: self._value(name, value) for name, value in row.items()})

    def _value(self, name: str, value: Any) -> Any:
        if pd.api.types.is_scalar(value) and pd.isna(value):
            return None
        if name in self.integers and isinstance(value, float) and value.is_integer():
            return int(value)
        return value
