"""Checks which rows the statements of an event read and write, as far as parameters are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidemark.cassandra.control import Control
from tidemark.event_groups.definition.file import Fault, GroupDefinition
from tidemark.event_groups.definition.many import literal
from tidemark.event_groups.definition.model import Compensation, Event
from tidemark.event_groups.definition.row_keys import as_text, canonical
from tidemark.event_groups.definition.statement import Statement, StatementKind
from tidemark.event_groups.definition.tables import Table, touched, use_of_now, with_comparable_keys
from tidemark.event_groups.definition.tokens import Token
from tidemark.event_groups.driver_engine.statements import Parameters
from tidemark.event_groups.failure import EventFailed


def require_declared(
    definition: GroupDefinition, statement: Statement, table: Table, parameters: Parameters
) -> None:
    """Require that a statement uses only declared rows, unless the group runs alone.

    Raises:
        EventFailed: it reads or writes another row, or a value changes each time it is sent.
    """
    if now_place := use_of_now(statement, table, parameters):
        raise EventFailed(f"{now_place} gets `now`, which is another time each time")
    rows = definition.rows
    if rows is None or (not statement.writes and definition.undeclared_reads):
        return
    # All rows of a partition share their static columns, whichever row a statement names.
    is_of_partition = bool(_static(statement, table))
    known_key = {
        name: _value(name, statement, table, parameters)
        for name in (table.partition_key if is_of_partition else table.key)
        if name in statement.key
    }
    declared = rows if statement.writes else rows | definition.reads
    if not any(
        name == statement.name and all(known_key.get(column) == value for column, value in key)
        for name, key in declared
    ):
        does = "writes" if statement.writes else "reads"
        what = "static columns of a partition" if is_of_partition else "a row"
        raise EventFailed(f"it {does} {what} of {statement.name} that the group has not declared")


def check(control: Control, definition: GroupDefinition, fault: Fault) -> None:
    """Check the statements whose rows do not depend on other events against the declared rows.

    Raises:
        DefinitionError: a statement reads or writes another row.
    """
    comparable = with_comparable_keys(control, definition)
    if comparable.rows is None:
        return
    for index, event in enumerate(definition.group.events):
        for statement, values, path in _with_values(comparable, event):
            table = Table.read(control, statement.keyspace, statement.table)
            if table is None or not _parameters(statement, table) <= values.keys():
                continue
            try:
                require_declared(comparable, statement, table, values)
            except EventFailed as failure:
                do = f"add it to `{'rows' if statement.writes else 'reads'}`"
                raise fault(str(failure), do, "events", index, *path) from None


def _with_values(
    definition: GroupDefinition, event: Event
) -> Iterator[tuple[Statement, Parameters, tuple[str | int, ...]]]:
    """Yield the statements of an event and of its undo, with their known values and paths."""
    if event.name in definition.statements:
        yield definition.statements[event.name], event.values, ("statement",)
    if isinstance(event.rollback, Compensation):
        pairs = zip(event.rollback.statements, definition.compensations(event.name), strict=True)
        for number, (compensating, parsed) in enumerate(pairs):
            path = ("rollback", "statements", number, "statement")
            yield parsed, {**event.values, **compensating.values}, path


def _parameters(statement: Statement, table: Table) -> set[str]:
    """Return the parameters by which a statement names its rows."""
    return {
        token.text[1:]
        for column in table.key
        for token in statement.key.get(column, ())
        if token.kind == "parameter"
    }


def require_rows_once(statement: Statement, table: Table, parameters: Sequence[Parameters]) -> None:
    """Reject two values for a row at the same write time: Cassandra would keep the larger one.

    Raises:
        EventFailed: two parameter sets of the statement name the same row, or give the static
            columns of a partition different values.
    """
    if statement.kind is StatementKind.DELETE or statement.is_range:
        return
    columns = [name for name in table.key if name in statement.key]
    seen: set[tuple[str | None, ...]] = set()
    static = sorted(_static(statement, table))
    seen_static: dict[tuple[str | None, ...], list[list[object]]] = {}
    for values in parameters:
        if static:
            partition = tuple(
                _value_or_text(name, statement, table, values) for name in table.partition_key
            )
            cells = [
                [
                    values[token.text[1:]] if token.kind == "parameter" else token.text
                    for token in tokens
                ]
                for tokens in (statement.assigned[name] for name in static)
            ]
            if None not in partition and seen_static.setdefault(partition, cells) != cells:
                what = f"static columns of the partition {', '.join(map(str, partition))}"
                raise EventFailed(f"it gives {what} more than one value")
        key = tuple(_value_or_text(name, statement, table, values) for name in columns)
        if key in seen and None not in key:
            raise EventFailed(f"it writes the row {', '.join(map(str, key))} twice")
        seen.add(key)


def _static(statement: Statement, table: Table) -> frozenset[str]:
    """Return the static columns that a statement writes."""
    return table.static & {*touched(statement, table)} if statement.writes else frozenset()


def _value(column: str, statement: Statement, table: Table, parameters: Parameters) -> str | None:
    """Return the comparable value of a key column; None if it is unknown."""
    text = _text(statement.key[column], parameters)
    if text is None:
        return None
    try:
        return canonical(table.columns[column], text)
    except ValueError as error:
        raise EventFailed(f"the key column {column} of {statement.name}: {error}") from None


def _value_or_text(
    column: str, statement: Statement, table: Table, parameters: Parameters
) -> str | None:
    """Return a value as `_value` does, or its text if it cannot be compared."""
    try:
        return _value(column, statement, table, parameters)
    except EventFailed:
        return _text(statement.key[column], parameters)


def _text(tokens: tuple[Token, ...], parameters: Mapping[str, object]) -> str | None:
    """Return a value as a text; None if it is null, or known only to Cassandra."""
    if len(tokens) != 1:
        return None
    [token] = tokens
    if token.kind == "parameter":
        value = parameters[token.text[1:]]
        return None if value is None else as_text(value)
    return literal(token)
