"""Statements with their parameters, sent to Cassandra until it answers."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from tidemark.cassandra.control import Control, Row
from tidemark.errors import CassandraUnavailable
from tidemark.event_groups.definition.statement import WRITE_TIME, Statement
from tidemark.event_groups.execution.failure import EventFailed

Parameters = Mapping[str, Any]
"""Values of parameters, of JSON's types."""
_PAUSES_S = (0.2, 1.0)
"""Between two attempts: a statement writes the same if it is sent twice."""


def send(
    control: Control,
    statement: Statement,
    parameters: Parameters,
    write_time: int | None,
    timeout: float,
) -> list[str]:
    """Send the statement of an event; return the rows of a select as JSON.

    Raises:
        EventFailed: Cassandra has refused it, or not answered, three times.
    """
    wanted: dict[str, object] = bound(parameters, statement.parameters)
    if statement.writes:
        wanted[WRITE_TIME] = write_time
    rows = attempted(control, statement.cql, wanted, timeout)
    return [] if statement.writes else [row["[json]"] for row in rows]


def bound(parameters: Parameters, names: frozenset[str]) -> dict[str, object]:
    """Return parameters as they are bound: as JSON."""
    return {name: json.dumps(parameters[name]) for name in names}


def attempted(
    control: Control, cql: str, values: Mapping[str, object], timeout: float
) -> list[Row]:
    """Send a statement until it succeeds.

    Raises:
        EventFailed: it did not, three times.
    """
    for pause in (*_PAUSES_S, None):
        try:
            return control.execute_named(cql, values, timeout)
        except CassandraUnavailable as error:
            if pause is None:
                raise EventFailed(str(error)) from None
            time.sleep(pause)
    raise AssertionError("unreachable")
