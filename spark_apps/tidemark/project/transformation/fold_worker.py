"""Runs the user's fold in a Python worker, for one persistence id at a time."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from tidemark.project.definition.on_error import OnError
from tidemark.project.definition.user_modules import ModuleTexts
from tidemark.text import one_line

FAILURES = "_failures"
"""JSON text: an array of {sequence_nr, cause}, or null."""
_TIME = pa.timestamp("ms")
"""The precision of a CQL timestamp; UTC without a time zone, like the events' timestamps."""

State = dict[str, Any] | None
"""None if there is no state yet, or if the function has removed the state."""
_Function = Callable[[State, pd.DataFrame], State]


class WrongState(Exception):
    """The fold returned no valid state; the text is the cause for quarantine."""


@dataclass(frozen=True)
class Fold:
    """Folds the events of one persistence id.

    The function first gets all events at once. If it fails, it gets them one by one, with the
    retries of the policy. If an event still fails, the fold ends there or skips the event, as the
    policy says.

    Attributes:
        sources: texts of the function's module and those in its directory.
        module: module of the function.
        name: name of the function.
        state: fields of the state.
        in_parts: whether to call the function with each event alone from the start.
    """

    sources: ModuleTexts
    module: str
    name: str
    state: T.StructType
    on_error: OnError
    in_parts: bool = False

    def __call__(
        self, persistence_id: str, events: pd.DataFrame, stored: pd.DataFrame
    ) -> pd.DataFrame:
        """Fold the events of a persistence id into one row, or none without new events.

        `events` are those after the stored state, in any order; `stored` has at most one row, with
        the columns of the state. Columns out: persistence_id, sequence_nr (of the last event,
        folded or skipped; null if the fold ends at the first event), those of the state, FAILURES.
        """
        columns = ["persistence_id", "sequence_nr", *self.state.names, FAILURES]
        if events.empty:
            return pd.DataFrame([], columns=columns, dtype="object")
        function: _Function = getattr(self.sources.load(self.module), self.name)
        ordered = events.sort_values("sequence_nr", ignore_index=True)
        state_before = self._plain(stored) if len(stored) else None
        state, last, failures = self._folded(function, state_before, ordered)
        failure_records = [
            {"sequence_nr": number, "cause": cause} for number, cause in failures.items()
        ]
        values = [(state or {}).get(name) for name in self.state.names]
        row = [
            persistence_id,
            last,
            *values,
            json.dumps(failure_records) if failure_records else None,
        ]
        return pd.DataFrame({name: pd.Series([value], dtype="object") for name, value
                             in zip(columns, row, strict=True)})  # fmt: skip

    def _folded(
        self, function: _Function, state: State, events: pd.DataFrame
    ) -> tuple[State, int | None, Mapping[int, str]]:
        """Return the new state, the sequence nr of the last event passed, and the failures."""
        numbers = [int(number) for number in events["sequence_nr"]]
        if len(numbers) > 1 and not self.in_parts:
            try:
                return self._called(function, state, events), numbers[-1], {}
            except Exception:  # noqa: S110 - the loop below finds the event
                pass
        last, failures = None, {}
        for index, number in enumerate(numbers):
            event = events.iloc[index : index + 1].reset_index(drop=True)
            try:
                state = self._attempted(function, state, event)
            except WrongState as error:
                failures[number] = one_line(str(error))
            except Exception as error:
                failures[number] = self.sources.describe(error)
            if failures and self.on_error.fails:
                break
            last = number
        return state, last, failures

    def _attempted(self, function: _Function, state: State, event: pd.DataFrame) -> State:
        return self.on_error.attempt(lambda: self._called(function, state, event))

    def _called(self, function: _Function, state: State, events: pd.DataFrame) -> State:
        # Copies, because a call that fails may have changed its arguments.
        result = function(copy.deepcopy(state), events.copy())
        if result is None:
            return None
        if not isinstance(result, dict):
            raise WrongState(f"{self.name} returned {type(result).__name__}, not a dict or None")
        unknown = [str(name) for name in result if name not in self.state.names]
        if unknown:
            raise WrongState(
                f"{self.name} returned {', '.join(unknown)}, which state does not have"
            )
        values = {field.name: self._value(field, result.get(field.name)) for field in self.state}
        return values if any(value is not None for value in values.values()) else None

    def _value(self, field: T.StructField, value: Any) -> Any:
        """Return a value as it will be read back, so that the next call gets the same value."""
        if pd.api.types.is_scalar(value) and pd.isna(value):
            return None
        try:
            return pa.array([value], type=_arrow(field.dataType)).to_pylist()[0]
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            kind = field.dataType.simpleString()
            raise WrongState(f"{self.name} returned {field.name}: not {kind}: {error}") from None

    def _plain(self, stored: pd.DataFrame) -> State:
        """Return a stored state as the function returned it."""
        stored_values = {name: _python(stored[name].iloc[0]) for name in self.state.names}
        values = {field.name: self._value(field, stored_values[field.name]) for field in self.state}
        return values if any(value is not None for value in values.values()) else None


def _arrow(kind: T.DataType) -> Any:
    match kind:
        case T.TimestampType():
            return _TIME
        case T.ArrayType():
            return pa.list_(_arrow(kind.elementType))
        case T.MapType():
            return pa.map_(_arrow(kind.keyType), _arrow(kind.valueType))
    return to_arrow_type(kind)


def _python(value: Any) -> Any:
    """Convert a value of pandas to plain Python."""
    if isinstance(value, pd.Timestamp):
        return None if pd.isna(value) else value.to_pydatetime()
    return value.tolist() if hasattr(value, "tolist") else value
