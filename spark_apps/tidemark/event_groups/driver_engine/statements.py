"""Sends statements with their parameters to Cassandra until it answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.serialized import Serialized
from tidemark.errors import CassandraUnavailable, InvalidInput, StatementRefused
from tidemark.event_groups.definition.statement import WRITE_TIME, Statement
from tidemark.event_groups.failure import EventFailed, attempts

MAX_RESULT_ROWS = 1000
_PARALLEL = 8
Item = TypeVar("Item")
Result = TypeVar("Result")
Parameters = Mapping[str, Any]
"""Values of parameters, of JSON's types."""


class Prepared(NamedTuple):
    """What is fixed before the statements of an event are sent.

    Attributes:
        parameters: of each statement.
        newest: the newest write time in the rows that it writes, in microseconds, 0 without one;
            None if it writes nothing.
        images: the number of before-images.
    """

    parameters: Sequence[Parameters]
    newest: int | None = None
    images: int = 0


def send(
    control: Control,
    statement: Statement,
    parameters: Parameters,
    write_time: int | None,
    timeout: float,
) -> list[str]:
    """Send the statement of an event; return the rows of a select as JSON.

    A result is cut after `MAX_RESULT_ROWS + 1` rows.
    """
    values: dict[str, object] = bound(parameters, statement.parameters)
    if statement.writes:
        values[WRITE_TIME] = write_time
        attempted(control, statement.cql, values, timeout)
        return []
    rows = attempted(control, statement.cql, values, timeout, MAX_RESULT_ROWS + 1)
    return [row["[json]"] for row in rows]


def bound(parameters: Parameters, names: frozenset[str]) -> dict[str, object]:
    """Return the named parameters as they are bound: as JSON."""
    return {name: json.dumps(parameters[name]) for name in names}


def attempted(
    control: Control,
    cql: str,
    values: Mapping[str, object],
    timeout: float,
    limit: int | None = None,
) -> list[Row]:
    """Send a statement until it succeeds or is rejected; return its first `limit` rows, or all.

    Raises:
        EventFailed: it was rejected, or failed three times.
    """
    return _attempted(lambda: control.execute_named(cql, values, timeout, limit))


def attempted_serialized(
    control: Control, cql: str, values: Mapping[str, object], timeout: float
) -> list[dict[str, Serialized | None]]:
    """Send a statement as `attempted` does; return the rows as the bytes of their cells."""
    return _attempted(lambda: control.execute_serialized(cql, values, timeout))


def _attempted(send_once: Callable[[], Result]) -> Result:
    failure = ""
    # Statements are idempotent.
    for number in attempts():
        try:
            return send_once()
        except (StatementRefused, InvalidInput) as error:
            raise EventFailed(str(error), was_refused=number == 1) from None
        except CassandraUnavailable as error:
            failure = str(error)
    raise EventFailed(failure)


def in_parallel(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Call a function for items, some at the same time; return the results in their order.

    Raises:
        Exception: the first that a call has raised.
    """
    items = list(items)
    if len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(_PARALLEL, thread_name_prefix="statement") as pool:
        return list(pool.map(function, items))
