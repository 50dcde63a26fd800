"""Which rows the statements of an event write, as far as their parameters say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tidemark.event_groups.definition.file import Definition
from tidemark.event_groups.definition.statement import Kind, Statement
from tidemark.event_groups.definition.tables import Table
from tidemark.event_groups.definition.tokens import Token
from tidemark.event_groups.execution.failure import EventFailed
from tidemark.event_groups.execution.statements import Parameters


def require_declared(definition: Definition, statement: Statement, parameters: Parameters) -> None:
    """Hold a statement to the rows that its group has declared.

    Raises:
        EventFailed: it writes another row.
    """
    rows = definition.rows
    if rows is None:
        return
    written = {name: _text(tokens, parameters) for name, tokens in statement.key.items()}
    if not any(
        table == statement.name and all(written.get(name) == value for name, value in key)
        for table, key in rows
    ):
        raise EventFailed(f"it writes a row of {statement.name} that the group has not declared")


def require_rows_once(statement: Statement, table: Table, parameters: Sequence[Parameters]) -> None:
    """Refuse two values for a row at the same write time: Cassandra would keep the larger one.

    Raises:
        EventFailed: two of the statement's parameters name the same row.
    """
    if statement.kind is Kind.DELETE or statement.is_range:
        return
    seen: set[tuple[str | None, ...]] = set()
    for one in parameters:
        key = tuple(_text(statement.key[name], one) for name in table.key if name in statement.key)
        if key in seen and None not in key:
            raise EventFailed(f"it writes the row {', '.join(map(str, key))} twice")
        seen.add(key)


def _text(tokens: tuple[Token, ...], parameters: Mapping[str, object]) -> str | None:
    """Return the value of a key column as a text; None of one that only Cassandra knows."""
    if len(tokens) != 1:
        return None
    [token] = tokens
    if token.kind == "parameter":
        value = parameters[token.text[1:]]
        return value if isinstance(value, str) else json.dumps(value)
    return token.text[1:-1].replace("''", "'") if token.kind == "text" else token.text
