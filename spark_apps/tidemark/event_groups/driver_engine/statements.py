"""Statements with their parameters, sent to Cassandra until it answers."""

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
Found = TypeVar("Found")
Parameters = Mapping[str, Any]
"""Values of parameters, of JSON's types."""


class Prepared(NamedTuple):
    """What is fixed of an event before its statements are sent.

    Attributes:
        parameters: of each statement.
        newest: the newest write time in the rows that it writes, in microseconds, 0 without one;
            None if it writes nothing.
        images: how many rows were kept as they are.
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

    Of a result with more than `MAX_RESULT_ROWS` rows, one row more than that is returned.

    Raises:
        EventFailed: Cassandra has refused it, or not answered three times.
    """
    wanted: dict[str, object] = bound(parameters, statement.parameters)
    if statement.writes:
        wanted[WRITE_TIME] = write_time
        attempted(control, statement.cql, wanted, timeout)
        return []
    rows = attempted(control, statement.cql, wanted, timeout, MAX_RESULT_ROWS + 1)
    return [row["[json]"] for row in rows]


def bound(parameters: Parameters, names: frozenset[str]) -> dict[str, object]:
    """Return parameters as they are bound: as JSON."""
    return {name: json.dumps(parameters[name]) for name in names}


def attempted(
    control: Control,
    cql: str,
    values: Mapping[str, object],
    timeout: float,
    most: int | None = None,
) -> list[Row]:
    """Send a statement until it succeeds, or is refused; return its first `most` rows, or all.

    Raises:
        EventFailed: it was refused, or did not succeed three times.
    """
    return _attempted(lambda: control.execute_named(cql, values, timeout, most))


def attempted_serialized(
    control: Control, cql: str, values: Mapping[str, object], timeout: float
) -> list[dict[str, Serialized | None]]:
    """Read the bytes of cells as `attempted` sends a statement."""
    return _attempted(lambda: control.execute_serialized(cql, values, timeout))


def _attempted(send_once: Callable[[], Found]) -> Found:
    failure = ""
    # It writes the same if it is sent twice.
    for number in attempts():
        try:
            return send_once()
        except (StatementRefused, InvalidInput) as error:
            raise EventFailed(str(error), was_refused=number == 1) from None
        except CassandraUnavailable as error:
            failure = str(error)
    raise EventFailed(failure)


def in_parallel(function: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
    """Call a function for items, some at the same time; the results are in their order.

    Raises:
        Exception: the first that a call has raised.
    """
    items = list(items)
    if len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(_PARALLEL, thread_name_prefix="statement") as pool:
        return list(pool.map(function, items))
