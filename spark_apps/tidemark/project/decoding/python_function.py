"""Payloads that a function of the user's reads."""

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

    The function takes a pandas Series of bytes and returns, with one row for each of them in their
    order, a DataFrame with the event's fields as columns or a Series of dicts with them. If it
    fails for a batch, it is called again for each event alone, and for one that fails then as often
    as the policy says.

    Attributes:
        sources: the modules, among them the function's.
        module: the function's.
        function: its name.
        integers: the event's fields of whole numbers; pandas makes floats of those with a gap.
        on_error: how often an event that fails is tried again.
    """

    sources: ModuleTexts
    module: str
    function: str
    integers: frozenset[str]
    on_error: OnError = SKIP

    def load(self) -> Callable[[pd.Series], Any]:
        """Import the function.

        Raises:
            AttributeError: the module has no such function.
            Exception: what importing the module raises.
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
