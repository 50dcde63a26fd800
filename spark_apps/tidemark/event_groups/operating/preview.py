"""What groups would do if they were submitted now, as far as Cassandra can tell before they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import identifier
from tidemark.errors import CassandraUnavailable
from tidemark.event_groups.definition import dag
from tidemark.event_groups.definition.file import GroupDefinition
from tidemark.event_groups.definition.model import Event
from tidemark.event_groups.definition.row_keys import GroupFootprint
from tidemark.event_groups.definition.statement import Statement, StatementKind
from tidemark.event_groups.definition.tables import Table
from tidemark.event_groups.driver_engine.before_image import named_in
from tidemark.event_groups.driver_engine.statements import bound, in_parallel
from tidemark.event_groups.operating import values
from tidemark.event_groups.stream.concurrency import collides
from tidemark.event_groups.stream.states import StoredGroup
from tidemark.text import counted

MOST_COUNTED = 1000
"""The maximum number of rows that are counted for one statement."""
_MAX_LISTED = 10
_UNKNOWN = "rows unknown until it runs"


def shown(
    control: Control,
    definitions: Sequence[GroupDefinition],
    opened: Iterable[StoredGroup],
    *,
    shows_values: bool,
) -> list[str]:
    """Describe for each group its collisions, and its waves with the rows that writes touch.

    `definitions` were checked against Cassandra; they and the stream's open groups are in order.
    With `shows_values`, each row is shown before and after.
    """
    lines = []
    for definition, text in zip(definitions, _collisions(definitions, opened), strict=True):
        lines += [definition.group.group, text]
        lines += dag.as_text(definition.graph, _summaries(control, definition))
        if shows_values:
            lines += ["rows before and after", *values.before_submission(control, definition)]
    return lines


def _collisions(definitions: Sequence[GroupDefinition], opened: Iterable[StoredGroup]) -> list[str]:
    """Describe with which open groups each group collides.

    Earlier groups of the same submission will be open, too.
    """
    footprints = [_footprint(definition) for definition in definitions]
    names: list[list[str]] = [[] for _ in footprints]
    numbers = [0] * len(footprints)
    others = chain(
        ((-1, _footprint(group.definition)) for group in opened),
        enumerate(footprints),
    )
    for other_index, other in others:
        for index, footprint in enumerate(footprints):
            is_before = other_index < index and other.item != footprint.item
            if is_before and collides(footprint, other):
                numbers[index] += 1
                names[index] += [other.item] if numbers[index] <= _MAX_LISTED else []
    return [
        _collision_text(*arguments) for arguments in zip(definitions, names, numbers, strict=True)
    ]


def _footprint(definition: GroupDefinition) -> GroupFootprint[str]:
    return definition.footprint_as(definition.group.group)


def _collision_text(definition: GroupDefinition, names: Sequence[str], number: int) -> str:
    alone = ""
    if definition.rows is None:
        alone = "runs alone, since it declares no rows; "
    elif names_of := definition.undeclared_reads:
        alone = f"runs alone, since {names_of[0]} selects rows that are not declared; "
    if not number:
        return f"{alone}collides with no open group"
    more = f" and {number - len(names):,} more" if number > len(names) else ""
    return f"{alone}collides with {counted(number, 'open group')}: {', '.join(names)}{more}"


def _summaries(control: Control, definition: GroupDefinition) -> dict[str, str]:
    """Return what each event does, with the number of rows that a write touches."""
    table = cache(lambda name: Table.read(control, *name.split(".")))

    def extended(name: str, summary: str) -> str:
        statement = definition.statements.get(name)
        if statement is None or not statement.writes:
            return summary
        return f"{summary}, {_touches(control, definition.events[name], statement, table)}"

    texts = definition.summaries()
    return dict(zip(texts, in_parallel(lambda item: extended(*item), texts.items()), strict=True))


def _touches(
    control: Control, event: Event, statement: Statement, table_of: Callable[[str], Table | None]
) -> str:
    """Return the number of rows that a write would touch now, in words."""
    table = table_of(statement.name)
    if event.each is not None or table is None:
        return _UNKNOWN
    if statement.kind is StatementKind.INSERT or _is_single(statement, table):
        return "1 row"
    parameters = named_in(statement.where, statement)
    if parameters - event.values.keys():
        return _UNKNOWN
    cql = (
        f"SELECT {identifier(table.key[0])} FROM {statement.quoted} WHERE {statement.where}"
        f" LIMIT {MOST_COUNTED + 1}"
    )
    try:
        rows = len(control.execute_named(cql, bound(event.values, parameters), event.timeout))
    except CassandraUnavailable as error:
        return f"rows cannot be counted: {error}"
    if rows > MOST_COUNTED:
        return f"more than {MOST_COUNTED:,} rows"
    return counted(rows, "row")


def _is_single(statement: Statement, table: Table) -> bool:
    """Tell whether conditions name one row, or the static columns of one partition."""
    is_static = bool(statement.columns) and table.static.issuperset(statement.columns)
    required = table.partition_key if is_static else table.key
    return not statement.is_range and statement.key.keys() >= {*required}
