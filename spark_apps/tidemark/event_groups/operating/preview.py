"""What groups would do if they were submitted now, as far as Cassandra tells before they run."""

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
"""The most rows that are counted of what one statement would touch."""
_NAMED = 10
_UNKNOWN = "rows unknown until it runs"


def shown(
    control: Control,
    definitions: Sequence[GroupDefinition],
    opened: Iterable[StoredGroup],
    *,
    shows_values: bool,
) -> list[str]:
    """Say of each group what it collides with, and its waves with the rows that writes touch.

    Args:
        control: the session.
        definitions: groups that were checked against Cassandra, in the order of submission.
        opened: the open groups of the stream, in their order.
        shows_values: whether each row is shown before and after.
    """
    lines = []
    for definition, met in zip(definitions, _met(definitions, opened), strict=True):
        lines += [definition.group.group, met]
        lines += dag.as_text(definition.graph, _does(control, definition))
        if shows_values:
            lines += ["rows before and after", *values.before_submission(control, definition)]
    return lines


def _met(definitions: Sequence[GroupDefinition], opened: Iterable[StoredGroup]) -> list[str]:
    """Say with which open groups each group collides.

    Those before it in the same submission will be open, too.
    """
    mine = [_footprint(one) for one in definitions]
    names: list[list[str]] = [[] for _ in mine]
    numbers = [0] * len(mine)
    others = chain(
        ((-1, _footprint(group.definition)) for group in opened),
        enumerate(mine),
    )
    for place_of_other, other in others:
        for place, footprint in enumerate(mine):
            is_before = place_of_other < place and other.item != footprint.item
            if is_before and collides(footprint, other):
                numbers[place] += 1
                names[place] += [other.item] if numbers[place] <= _NAMED else []
    return [_says(*one) for one in zip(definitions, names, numbers, strict=True)]


def _footprint(definition: GroupDefinition) -> GroupFootprint[str]:
    return definition.footprint_as(definition.group.group)


def _says(definition: GroupDefinition, names: Sequence[str], number: int) -> str:
    alone = ""
    if definition.rows is None:
        alone = "runs alone, since it declares no rows; "
    elif names_of := definition.undeclared_reads:
        alone = f"runs alone, since {names_of[0]} selects rows that are not declared; "
    if not number:
        return f"{alone}collides with no open group"
    more = f" and {number - len(names):,} more" if number > len(names) else ""
    return f"{alone}collides with {counted(number, 'open group')}: {', '.join(names)}{more}"


def _does(control: Control, definition: GroupDefinition) -> dict[str, str]:
    """Return what each event does, and how many rows a write touches."""
    table = cache(lambda name: Table.read(control, *name.split(".")))

    def does(name: str, says: str) -> str:
        statement = definition.statements.get(name)
        if statement is None or not statement.writes:
            return says
        return f"{says}, {_touches(control, definition.events[name], statement, table)}"

    says = definition.summaries()
    return dict(zip(says, in_parallel(lambda one: does(*one), says.items()), strict=True))


def _touches(
    control: Control, event: Event, statement: Statement, table_of: Callable[[str], Table | None]
) -> str:
    """Return the number of rows that a write would touch now, in words."""
    table = table_of(statement.name)
    if event.each is not None or table is None:
        return _UNKNOWN
    if statement.kind is StatementKind.INSERT or _is_one(statement, table):
        return "1 row"
    wanted = named_in(statement.where, statement)
    if wanted - event.values.keys():
        return _UNKNOWN
    cql = (
        f"SELECT {identifier(table.key[0])} FROM {statement.quoted} WHERE {statement.where}"
        f" LIMIT {MOST_COUNTED + 1}"
    )
    try:
        rows = len(control.execute_named(cql, bound(event.values, wanted), event.timeout))
    except CassandraUnavailable as error:
        return f"rows cannot be counted: {error}"
    if rows > MOST_COUNTED:
        return f"more than {MOST_COUNTED:,} rows"
    return counted(rows, "row")


def _is_one(statement: Statement, table: Table) -> bool:
    """Tell whether conditions name one row, or the columns that a partition has once."""
    is_static = bool(statement.columns) and table.static.issuperset(statement.columns)
    named = table.partition_key if is_static else table.key
    return not statement.is_range and statement.key.keys() >= {*named}
