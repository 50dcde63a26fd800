"""The parameters of an event: from its file, from results, and from outside.

They are stored before the statement is sent, so no service is called twice for a begun event.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from typing import Any

from tidemark.event_groups.definition import result_sql
from tidemark.event_groups.definition.model import Event, Need
from tidemark.event_groups.driver_engine.statements import Parameters
from tidemark.event_groups.external import http
from tidemark.event_groups.external.processes import Functions
from tidemark.event_groups.failure import EventFailed
from tidemark.event_groups.stream.states import as_json

Result = Callable[[str], str]
"""Returns the rows that an event has selected, as JSON."""


class Needs:
    """Finds the parameters of the events of one group."""

    def __init__(
        self,
        origin: dict[str, str],
        result: Result,
        functions: Functions,
        hosts: Collection[str],
    ) -> None:
        """Bind; `origin` tells external functions and services which group calls them."""
        self._origin, self._result = origin, result
        self._functions, self._hosts = functions, hosts

    def parameters(self, event: Event) -> list[Parameters]:
        """Return the parameters of each statement that the event sends.

        Raises:
            EventFailed: a value is not available, or is not a single value.
        """
        if event.each is None:
            return [
                dict(event.values) | {need.as_: self._value(event, need) for need in event.needs}
            ]
        rows = as_json(self._result(event.each))
        shared, values_by_name = dict(event.values), {}
        for need in event.needs:
            if need.event == event.each:
                values_by_name[need.as_] = self._values(need, rows)
            else:
                shared[need.as_] = self._value(event, need)
        return [
            shared | {name: values[index] for name, values in values_by_name.items()}
            for index in range(len(rows))
        ]

    def _value(self, event: Event, need: Need) -> object:
        if need.event is None:
            return self._from_outside(event, need)
        if need.call is not None:
            return self._functions.call(need.call, self._result(need.event), need.timeout)
        rows = as_json(self._result(need.event))
        if need.sql is not None:
            values = self._evaluated(need, rows)
            if len(values) != 1:
                raise EventFailed(f"`{need.sql}` has {len(values)} values, and one is needed")
            return values[0]
        if len(rows) != 1:
            raise EventFailed(f"{need.event} has found {len(rows)} rows, and one is needed")
        return _column_value(need, rows[0])

    def _values(self, need: Need, rows: Sequence[dict[str, Any]]) -> Sequence[object]:
        """Return one value for each row."""
        if not rows:
            return []
        if need.sql is not None:
            values: Any = self._evaluated(need, rows)
        elif need.call is not None:
            values = self._functions.call(need.call, self._result(str(need.event)), need.timeout)
        else:
            return [_column_value(need, row) for row in rows]
        if not isinstance(values, list) or len(values) != len(rows):
            outcome = f"{len(values)} values" if isinstance(values, list) else "no list"
            source = need.call or f"`{need.sql}`"
            raise EventFailed(f"{source} has made {outcome} of {len(rows)} rows")
        return values

    def _evaluated(self, need: Need, rows: Sequence[dict[str, Any]]) -> list[str | None]:
        if not rows:
            raise EventFailed(f"{need.event} has found no rows")
        try:
            numbers = json.loads(self._result(str(need.event)), parse_float=Decimal)
            return result_sql.evaluate(str(need.sql), numbers, need.timeout)
        except ValueError as error:
            raise EventFailed(f"`{need.sql}`: {error}") from None

    def _from_outside(self, event: Event, need: Need) -> object:
        request = json.dumps(self._origin | {"event": event.name, "parameter": need.as_})
        if need.call is not None:
            return self._functions.call(need.call, request, need.timeout)
        answer = http.post(str(need.url), request, self._hosts, need.timeout, {}).text
        try:
            return as_json(answer)
        except (ValueError, RecursionError):
            raise EventFailed(f"{need.url} has not answered in JSON") from None


def _column_value(need: Need, row: dict[str, Any]) -> object:
    column = need.take or need.as_
    if column not in row:
        raise EventFailed(f"the result of {need.event} has no column {column}")
    return row[column]
