"""Shows rows before and after the writes of a group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from tidemark.cassandra.control import Control
from tidemark.cassandra.serialized import readable
from tidemark.event_groups.definition.file import GroupDefinition
from tidemark.event_groups.definition.many import literal
from tidemark.event_groups.definition.statement import Statement, StatementKind
from tidemark.event_groups.definition.tables import Table, touched
from tidemark.event_groups.definition.tokens import Token
from tidemark.event_groups.driver_engine import before_image
from tidemark.event_groups.driver_engine.statements import Parameters
from tidemark.event_groups.failure import EventFailed
from tidemark.event_groups.stream.states import NOTHING, Image, StoredEvent

_MOST_ROWS = 10
"""The maximum number of rows that are shown for one event."""


def before_submission(control: Control, definition: GroupDefinition) -> list[str]:
    """Return what each write would change now; writes that need other events are unknown."""
    lines = []
    for name, statement in definition.statements.items():
        event = definition.events[name]
        if not statement.writes:
            continue
        if event.needs or event.each is not None:
            lines.append(f"  {name}: known when it runs")
            continue
        table = Table.read(control, statement.keyspace, statement.table)
        if table is None or not _names_its_rows(statement, table):
            lines.append(f"  {name}: its conditions do not name its rows")
            continue
        try:
            images = before_image.read(control, statement, table, event.values, 0)
        except EventFailed as failure:
            lines.append(f"  {name}: not known: {failure}")
            continue
        lines += _lines(name, statement, table, [event.values], images)
    return lines


def of_events(
    control: Control,
    definition: GroupDefinition,
    stored: Mapping[str, StoredEvent],
    images: Mapping[str, Sequence[Image]],
) -> list[str]:
    """Return the changes by the writes of a group, as far as they have begun.

    `images` are the before-images that still exist, by event.
    """
    if definition.refusal:
        return [f"  not shown: {definition.refusal}"]
    lines = []
    for name, statement in definition.statements.items():
        event = definition.events[name]
        if not statement.writes or name not in stored:
            continue
        table = Table.read(control, statement.keyspace, statement.table)
        if table is None or definition.has_many(event):
            lines.append(f"  {name}: not shown")
            continue
        parameters = stored[name].parameters
        event_images = images.get(name) or [
            Image(number, False, {}, {}) for number in range(len(parameters))
        ]
        is_kept = bool(images.get(name))
        lines += _lines(name, statement, table, parameters, event_images, is_kept=is_kept)
    return lines


def _lines(
    name: str,
    statement: Statement,
    table: Table,
    parameters: Sequence[Parameters],
    images: Sequence[Image],
    *,
    is_kept: bool = True,
) -> list[str]:
    shown = [
        f"  {name}: {statement.name} {_key(statement, table, parameters, image)}: "
        + ", ".join(_changes(statement, table, parameters[image.statement], image, is_kept))
        for image in islice(images, _MOST_ROWS)
    ]
    if not images:
        shown = [f"  {name}: {statement.name}: no rows"]
    if len(images) > _MOST_ROWS:
        shown.append(f"  {name}: and {len(images) - _MOST_ROWS:,} more rows")
    return shown


def _key(statement: Statement, table: Table, parameters: Sequence[Parameters], image: Image) -> str:
    by_statement = {
        column: _text(statement.key[column], parameters[image.statement])
        for column in table.key
        if column in statement.key
    }
    by_image = {column: readable(table.columns[column], part) for column, part in image.key.items()}
    return " ".join(f"{column}={text}" for column, text in (by_image or by_statement).items())


def _changes(
    statement: Statement, table: Table, parameters: Parameters, image: Image, is_kept: bool
) -> Iterator[str]:
    if statement.kind is StatementKind.DELETE and not statement.columns and not is_kept:
        yield "the rows are deleted"
        return
    for column in touched(statement, table):
        after = "null"
        if column in statement.assigned:
            after = _text(statement.assigned[column], parameters)
        cell = image.cells.get(column, NOTHING)
        if cell is NOTHING and statement.kind is StatementKind.DELETE:
            continue
        before = readable(table.columns[column], cell.value) if is_kept else "?"
        yield f"{column} {before} -> {after}"


def _text(tokens: Sequence[Token], parameters: Parameters) -> str:
    if len(tokens) > 1:
        return " ".join(token.text for token in tokens)
    [token] = tokens
    is_parameter = token.kind == "parameter"
    value = parameters[token.text[1:]] if is_parameter else literal(token)
    return "null" if value is None else str(value)


def _names_its_rows(statement: Statement, table: Table) -> bool:
    required = table.partition_key if statement.kind is StatementKind.DELETE else table.key
    return statement.key.keys() >= {*required}
