"""Checks of a group that need Cassandra: its tables, and whether rows can be restored."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidemark.cassandra.control import Control
from tidemark.errors import InvalidInput
from tidemark.event_groups.definition import dag
from tidemark.event_groups.definition.file import Fault, GroupDefinition, Place, declared
from tidemark.event_groups.definition.many import literal
from tidemark.event_groups.definition.model import Compensation, DeclaredRow, Event, FailurePolicy
from tidemark.event_groups.definition.row_keys import as_text, canonical
from tidemark.event_groups.definition.statement import Statement, StatementKind
from tidemark.event_groups.definition.tokens import Token, tokenized
from tidemark.journals.pekko.tables import TAG_SCANNING, TAG_WRITE_PROGRESS
from tidemark.settings import Settings

Owner = Callable[[Statement], str]
"""Returns the owner of a table that a statement must not use; empty if it may use the table."""
_MANAGEMENT_OF_PEKKO_PROJECTIONS = "projection_management"
_OTHERS_OF_KAFKA_JOURNAL = ("setting", "locks")
"""The default names of tables that have no setting."""
_NATIVE = frozenset(
    {
        *("ascii", "bigint", "blob", "boolean", "counter", "date", "decimal", "double"),
        *("duration", "float", "inet", "int", "smallint", "text", "time", "timestamp"),
        *("timeuuid", "tinyint", "uuid", "varchar", "varint"),
    }
)
"""The native types of CQL; a name that is neither one of them nor a collection is user-defined."""
_WITH_PARTS = frozenset({"frozen", "list", "set", "map", "tuple", "vector"})
_COMPENSATE = "write `rollback: none`, or `rollback: {statements: [...]}` of your own"


@dataclass(frozen=True)
class Table:
    """A table of the cluster.

    Attributes:
        columns: the CQL type of every column.
        partition_key: columns, in order.
        clustering: columns, in order.
        static: columns with one value per partition.
    """

    columns: Mapping[str, str]
    partition_key: tuple[str, ...]
    clustering: tuple[str, ...]
    static: frozenset[str]

    @property
    def key(self) -> tuple[str, ...]:
        """Return the primary key."""
        return (*self.partition_key, *self.clustering)

    @property
    def regular(self) -> tuple[str, ...]:
        """Return the columns that are neither static nor in the key."""
        return tuple(name for name in self.columns if name not in {*self.key, *self.static})

    def has_many_cells(self, column: str) -> bool:
        """Tell whether parts of a column's value have their own write times.

        This holds for collections and user-defined types that are not frozen.
        """
        kind = self.columns[column]
        return kind.startswith(("list<", "set<", "map<")) or (
            kind not in _NATIVE and not kind.startswith(("frozen<", "vector<", "'"))
        )

    @classmethod
    def read(cls, control: Control, keyspace: str, name: str) -> Table | None:
        """Read a table's columns; None if there is no such table."""
        rows = control.columns(keyspace, name)
        if not rows:
            return None
        columns_by_kind = {
            kind: [row["column_name"] for row in rows if row["kind"] == kind]
            for kind in ("partition_key", "clustering", "static")
        }
        return cls(
            {row["column_name"]: row["type"] for row in rows},
            tuple(columns_by_kind["partition_key"]),
            tuple(columns_by_kind["clustering"]),
            frozenset(columns_by_kind["static"]),
        )


class _TableCheck:
    """Checks statements and declared rows against the tables of the cluster."""

    def __init__(self, control: Control, owner: Owner, fault: Fault) -> None:
        self._control, self._fault = control, fault
        self._owner = owner
        self._tables: dict[str, Table] = {}

    def table(self, name: str, at: Place) -> Table:
        """Return a table by `keyspace.table`."""
        if name not in self._tables:
            table = Table.read(self._control, *name.split("."))
            if table is None:
                do = "create it, or correct the name"
                raise self._fault(f"there is no table {name}", do, *at)
            self._tables[name] = table
        return self._tables[name]

    def statement(self, parsed: Statement, values: Mapping[str, object], at: Place) -> Table:
        """Check one statement with its known values; return its table."""
        if owner := self._owner(parsed):
            do = "leave it to its owner" if parsed.writes else "select from another table"
            raise self._fault(f"{parsed.name} belongs to {owner}", do, *at)
        table = self.table(parsed.name, at)
        for column in sorted({*parsed.columns, *parsed.key} - table.columns.keys()):
            near = difflib.get_close_matches(column, table.columns, 1)
            do = f"write {near[0]}" if near else "correct the name"
            raise self._fault(f"{parsed.name} has no column {column}", do, *at)
        if refusal := self._control.refusal(parsed.cql):
            raise self._fault(f"Cassandra refuses it: {refusal}", "correct it", *at)
        if name := use_of_now(parsed, table, values):
            what = f"{name} of {parsed.name} gets `now`, which is another time each time"
            raise self._fault(what, "write the time, such as 2024-03-01T12:00:00Z", *at)
        if name := _appended_list(parsed, table):
            what = f"the column {name} of {parsed.name} is a list, which has its elements twice"
            do = "make it a frozen one: a run after a crash sends the statement again"
            raise self._fault(what, do, *at)
        return table

    def row(self, row: DeclaredRow, at: Place) -> None:
        """Check that a declared row has the complete partition key."""
        table = self.table(row.table, (*at, "table"))
        if not set(table.partition_key) <= row.key.keys() <= set(table.key):
            what = f"the key of a row of {row.table} has {', '.join(row.key)}"
            do = f"name {', '.join(table.partition_key)}, and clustering columns"
            raise self._fault(what, do, *at, "key")
        for column, text in row.key.items():
            try:
                canonical(table.columns[column], text)
            except ValueError as error:
                what, _, do = str(error).partition("; ")
                raise self._fault(what, do, *at, "key", column) from None


def check(control: Control, owner: Owner, definition: GroupDefinition, fault: Fault) -> None:
    """Check a group against the tables of the cluster.

    Raises:
        DefinitionError: a table or column does not exist, a table belongs to somebody else, or
            the rows that an event writes cannot be restored.
    """
    checks = _TableCheck(control, owner, fault)
    for index, event in enumerate(definition.group.events):
        at: Place = ("events", index)
        if event.name in definition.statements:
            parsed = definition.statements[event.name]
            table = checks.statement(parsed, event.values, (*at, "statement"))
            if event.rollback == "restore" and (why := _cannot_restore(parsed, table)):
                raise fault(why, _COMPENSATE, *at, "statement")
        statements = event.rollback.statements if isinstance(event.rollback, Compensation) else ()
        undos = definition.compensations(event.name)
        for number, (written, undo) in enumerate(zip(statements, undos, strict=True)):
            path = (*at, "rollback", "statements", number, "statement")
            checks.statement(undo, {**event.values, **written.values}, path)
    for at, row in declared(definition.group):
        checks.row(row, at)
    if definition.group.policy is FailurePolicy.ONE_FOR_ONE:
        _check_alone(checks, definition, fault)


def _check_alone(checks: _TableCheck, definition: GroupDefinition, fault: Fault) -> None:
    """Reject events that may fail independently and may both leave nulls in the same row.

    The write time of a null cannot be read: the rollback of one event would undo the other's null.
    """
    written: dict[str, list[tuple[Event, Statement]]] = {}
    for index, event in enumerate(definition.group.events):
        parsed = definition.statements.get(event.name)
        if parsed is None or not parsed.writes:
            continue
        table = checks.table(parsed.name, ("events", index, "statement"))
        for other, other_parsed in written.setdefault(parsed.name, []):
            if (
                _share_nulls((event, parsed), (other, other_parsed), table)
                and not _are_of_two_rows((event, parsed), (other, other_parsed), table)
                and not {event.name, other.name}
                & (
                    dag.dependents(definition.graph, [event.name])
                    | dag.dependents(definition.graph, [other.name])
                )
            ):
                raise fault(
                    f"{other.name} and {event.name} may leave nulls in one row of {parsed.name},"
                    " and neither comes after the other",
                    "let one be `after` the other, put them into two groups, or write"
                    " `policy: all-for-one`",
                    *("events", index, "statement"),
                )
        written[parsed.name].append((event, parsed))


def _share_nulls(
    first: tuple[Event, Statement], second: tuple[Event, Statement], table: Table
) -> bool:
    """Tell whether two writes may null the same column, or one may insert a row without values."""
    first_nulls, second_nulls = _nulls(*first, table), _nulls(*second, table)
    is_bare = any(
        parsed.kind is StatementKind.INSERT and nulls.issuperset(touched(parsed, table))
        for (_, parsed), nulls in ((first, first_nulls), (second, second_nulls))
    )
    return is_bare or bool(first_nulls & second_nulls)


def _nulls(event: Event, statement: Statement, table: Table) -> set[str]:
    """Return the columns that a write may leave without a value, now or after its TTL."""
    if statement.kind is StatementKind.DELETE or statement.ttl is not None:
        return {*touched(statement, table)}
    fixed = {name for name, value in event.values.items() if value is not None}
    return {
        name
        for name in touched(statement, table)
        if any(
            token.is_word("NULL") or (token.kind == "parameter" and token.text[1:] not in fixed)
            for token in statement.assigned.get(name, ())
        )
    }


def _are_of_two_rows(
    first: tuple[Event, Statement], second: tuple[Event, Statement], table: Table
) -> bool:
    """Tell whether two statements name different rows: a column of the key differs."""
    first_key, second_key = _known_key(*first, table), _known_key(*second, table)
    return any(first_key[name] != second_key[name] for name in first_key.keys() & second_key.keys())


def _known_key(event: Event, statement: Statement, table: Table) -> dict[str, str]:
    """Return the values of key columns that are known before any event is executed."""
    key = {}
    for name, tokens in statement.key.items():
        if name not in table.key or len(tokens) != 1:
            continue
        [token] = tokens
        is_parameter = token.kind == "parameter"
        value = event.values.get(token.text[1:]) if is_parameter else literal(token)
        if value is not None:
            with suppress(ValueError):
                key[name] = canonical(table.columns[name], as_text(value))
    return key


def with_comparable_keys(control: Control, definition: GroupDefinition) -> GroupDefinition:
    """Return a group whose declared rows have canonical values (see `row_keys.canonical`).

    Raises:
        InvalidInput: a value does not have its column's type.
    """
    tables: dict[str, Table | None] = {}

    def canonical_row(row: DeclaredRow) -> DeclaredRow:
        if row.table not in tables:
            tables[row.table] = Table.read(control, *row.table.split("."))
        table = tables[row.table]
        if table is None:
            return row
        try:
            key = {
                name: canonical(table.columns.get(name, "text"), text)
                for name, text in row.key.items()
            }
        except ValueError as error:
            what, _, do = str(error).partition("; ")
            raise InvalidInput(what, where=f"group {definition.group.group}", do=do) from None
        return row.model_copy(update={"key": key})

    group = definition.group
    changed = {
        name: tuple(map(canonical_row, rows))
        for name, rows in (("rows", group.rows), ("reads", group.reads))
        if rows
    }
    return GroupDefinition(group.model_copy(update=changed)) if changed else definition


def use_of_now(statement: Statement, table: Table, values: Mapping[str, object]) -> str:
    """Return where a statement has the text `now` as a time; empty if it has none.

    It would be another time whenever the statement is sent again.
    Source: org.apache.cassandra.serializers.TimestampSerializer (5.0.9).

    Args:
        statement: the statement.
        table: its table.
        values: the known values of its parameters.
    """
    count = sum(_is_now(token, values) for token in tokenized(statement.cql))
    if not count:
        return ""
    harmless = 0
    for column, tokens in {**statement.key, **statement.assigned}.items():
        number = sum(_is_now(token, values) for token in tokens)
        if number and _takes_time(table.columns.get(column, ""), tokens):
            return f"the column {column}"
        harmless += number
    # Otherwise it is in another kind of condition, or in a selected expression.
    return "a condition or a function" if count > harmless else ""


def _is_now(token: Token, values: Mapping[str, object]) -> bool:
    """Tell whether a token is the text `now`, or a parameter with that value."""
    if token.kind not in ("text", "parameter"):
        return False
    value = values.get(token.text[1:]) if token.kind == "parameter" else literal(token)
    return any(text.strip().lower() == "now" for text in _texts(value))


def _takes_time(kind: str, tokens: Sequence[Token]) -> bool:
    """Tell whether a text may become a time, by the type of its column or through a function."""
    words = {*re.findall(r"\w+", kind)}
    return (
        "timestamp" in words
        or bool(words - _NATIVE - _WITH_PARTS)
        or any(token.kind == "word" and not token.is_word("NULL") for token in tokens)
    )


def _texts(value: object) -> Iterator[str]:
    """Yield the texts in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for part in value.items() if isinstance(value, dict) else value:
            yield from _texts(list(part) if isinstance(part, tuple) else part)


def touched(statement: Statement, table: Table) -> tuple[str, ...]:
    """Return the columns outside of the key that a statement writes."""
    if statement.kind is StatementKind.DELETE and not statement.columns:
        return table.regular
    return tuple(name for name in statement.columns if name not in table.key)


def _appended_list(parsed: Statement, table: Table) -> str:
    """Return a list column whose elements double if a statement is sent twice; empty if none.

    Cassandra gives each element of a list a new key each time.
    """
    if parsed.kind not in (StatementKind.INSERT, StatementKind.UPDATE):
        return ""
    return next((name for name in parsed.columns if table.columns[name].startswith("list<")), "")


def _cannot_restore(parsed: Statement, table: Table) -> str:
    """Return why the rows cannot be restored; empty if they can."""
    if not parsed.writes:
        return ""
    if parsed.kind is StatementKind.UPDATE and (
        parsed.is_range or set(table.key) - parsed.key.keys()
    ):
        return "it updates rows that its conditions do not name by their whole key"
    if set(table.partition_key) - parsed.key.keys():
        return "it deletes rows of partitions that its conditions do not name"
    written = touched(parsed, table)
    if table.static & {*written} or (
        table.static
        and parsed.kind is StatementKind.DELETE
        and parsed.key.keys() == {*table.partition_key}
    ):
        return f"{parsed.name} has static columns, which are not restored"
    for name in written:
        kind = table.columns[name]
        if kind == "counter" or table.has_many_cells(name):
            return f"the column {name} of {parsed.name} is a {kind}, which is not restored"
    return ""


def owners(settings: Settings) -> Owner:
    """Return the function that names the owner of a table that a statement must not use.

    Groups may neither write nor select from tables of Cassandra and Tidemark. They may select from
    tables of journals and projections, but not write them. A projection file that cannot be used
    owns every table whose name is a word of the file.

    Raises:
        InvalidInput: there is no directory of projection files.
    """
    # Only checks need projections; a run need not load them (a tenth of all that it would load).
    from tidemark.project.definition import catalog

    journals = _tables_of_journals(settings)
    files = catalog.read_all(settings.projections_dir)
    definitions = [*files.definitions, *(rollup.definition for rollup in files.rollups)]
    projected = {d.target: d.name for d in definitions if d.table}
    words_of = {broken.name: _words(broken.file) for broken in files.unusable}

    def owner(parsed: Statement) -> str:
        if parsed.keyspace == "system" or parsed.keyspace.startswith("system_"):
            return "Cassandra"
        if parsed.keyspace == settings.keyspace:
            return "Tidemark"
        if not parsed.writes:
            return ""
        if name := journals.get(parsed.name):
            return name
        if name := projected.get(parsed.name):
            return f"the projection {name}"
        broken = next((name for name, words in words_of.items() if parsed.table in words), None)
        return f"the projection {broken}, as long as its file cannot be used" if broken else ""

    return owner


def _tables_of_journals(settings: Settings) -> dict[str, str]:
    """Return the owners of the tables that Pekko's plugins and kafka-journal create."""
    of_pekko = {
        settings.journal_keyspace: (
            *(settings.journal_table, settings.metadata_table, settings.events_by_tag_table),
            *(settings.all_persistence_ids_table, TAG_WRITE_PROGRESS, TAG_SCANNING),
        ),
        settings.snapshot_keyspace: (settings.snapshot_table,),
        settings.pekko_projection_keyspace: (
            settings.pekko_projection_table,
            _MANAGEMENT_OF_PEKKO_PROJECTIONS,
        ),
    }
    of_kafka_journal = (
        *(settings.kafka_journal_table, settings.kafka_metajournal_table),
        *(settings.kafka_pointer_table, *_OTHERS_OF_KAFKA_JOURNAL),
    )
    owned = [
        *((keyspace, name, "Pekko") for keyspace, names in of_pekko.items() for name in names),
        *((settings.kafka_journal_keyspace, name, "kafka-journal") for name in of_kafka_journal),
    ]
    return {f"{keyspace}.{name}": owner for keyspace, name, owner in owned}


def _words(file: Path) -> set[str]:
    """Return the words of a file; none if it cannot be read."""
    try:
        return set(re.findall(r"\w+", file.read_text(errors="replace")))
    except OSError:
        return set()
