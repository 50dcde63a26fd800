"""What of a group only Cassandra can tell: tables and columns, and whether rows can be restored."""

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
"""Tells whose table a statement must not use; empty if it may."""
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
"""The types of CQL that are no collections; a name that is none of them is a user-defined type."""
_WITH_PARTS = frozenset({"frozen", "list", "set", "map", "tuple", "vector"})
_COMPENSATE = "write `rollback: none`, or `rollback: {statements: [...]}` of your own"


@dataclass(frozen=True)
class Table:
    """A table of the cluster.

    Attributes:
        columns: CQL types by column; all of them.
        partition_key: columns, in order.
        clustering: columns, in order.
        static: columns that a partition has once.
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
        """Return the columns that are neither static nor of the key."""
        return tuple(one for one in self.columns if one not in {*self.key, *self.static})

    def has_many_cells(self, column: str) -> bool:
        """Tell whether parts of a column's value have write times of their own.

        Those are collections and values of user-defined types that are not frozen.
        """
        kind = self.columns[column]
        return kind.startswith(("list<", "set<", "map<")) or (
            kind not in _NATIVE and not kind.startswith(("frozen<", "vector<", "'"))
        )

    @classmethod
    def read(cls, control: Control, keyspace: str, name: str) -> Table | None:
        """Read what the cluster says; None if there is no such table."""
        rows = control.columns(keyspace, name)
        if not rows:
            return None
        of_kind = {
            kind: [row["column_name"] for row in rows if row["kind"] == kind]
            for kind in ("partition_key", "clustering", "static")
        }
        return cls(
            {row["column_name"]: row["type"] for row in rows},
            tuple(of_kind["partition_key"]),
            tuple(of_kind["clustering"]),
            frozenset(of_kind["static"]),
        )


class _TableCheck:
    """Goes through the statements of a group."""

    def __init__(self, control: Control, owner: Owner, fault: Fault) -> None:
        self._control, self._fault = control, fault
        self._owner = owner
        self._known: dict[str, Table] = {}

    def table(self, name: str, at: Place) -> Table:
        """Return a table by `keyspace.table`."""
        if name not in self._known:
            found = Table.read(self._control, *name.split("."))
            if found is None:
                do = "create it, or correct the name"
                raise self._fault(f"there is no table {name}", do, *at)
            self._known[name] = found
        return self._known[name]

    def statement(self, parsed: Statement, values: Mapping[str, object], at: Place) -> Table:
        """Check one statement with the values that are known; return its table."""
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
        if name := moving(parsed, table, values):
            what = f"{name} of {parsed.name} gets `now`, which is another time each time"
            raise self._fault(what, "write the time, such as 2024-03-01T12:00:00Z", *at)
        if name := _appended_list(parsed, table):
            what = f"the column {name} of {parsed.name} is a list, which has its elements twice"
            do = "make it a frozen one: a run after a crash sends the statement again"
            raise self._fault(what, do, *at)
        return table

    def row(self, row: DeclaredRow, at: Place) -> None:
        """Check that a declared row names its partition."""
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
        DefinitionError: a table or column is not there, a table belongs to somebody else, or what
            an event does cannot be restored.
    """
    checks = _TableCheck(control, owner, fault)
    for place, event in enumerate(definition.group.events):
        at: Place = ("events", place)
        if event.name in definition.statements:
            parsed = definition.statements[event.name]
            table = checks.statement(parsed, event.values, (*at, "statement"))
            if event.rollback == "restore" and (why := _cannot_restore(parsed, table)):
                raise fault(why, _COMPENSATE, *at, "statement")
        own = event.rollback.statements if isinstance(event.rollback, Compensation) else ()
        backs = definition.compensations(event.name)
        for number, (one, back) in enumerate(zip(own, backs, strict=True)):
            place_of = (*at, "rollback", "statements", number, "statement")
            checks.statement(back, {**event.values, **one.values}, place_of)
    for at, row in declared(definition.group):
        checks.row(row, at)
    if definition.group.policy is FailurePolicy.ONE_FOR_ONE:
        _check_alone(checks, definition, fault)


def _check_alone(checks: _TableCheck, definition: GroupDefinition, fault: Fault) -> None:
    """Refuse events that may fail alone, and whose nulls in one row nobody could tell apart.

    A null has no write time that can be read: the rollback of one would take back that of another.
    """
    written: dict[str, list[tuple[Event, Statement]]] = {}
    for place, event in enumerate(definition.group.events):
        parsed = definition.statements.get(event.name)
        if parsed is None or not parsed.writes:
            continue
        table = checks.table(parsed.name, ("events", place, "statement"))
        for other, its in written.setdefault(parsed.name, []):
            if (
                _share_nulls((event, parsed), (other, its), table)
                and not _are_of_two_rows((event, parsed), (other, its), table)
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
                    *("events", place, "statement"),
                )
        written[parsed.name].append((event, parsed))


def _share_nulls(
    one: tuple[Event, Statement], other: tuple[Event, Statement], table: Table
) -> bool:
    """Tell whether two writes may leave a null in the same column, or one no column at all."""
    mine, its = _nulls(*one, table), _nulls(*other, table)
    is_bare = any(
        parsed.kind is StatementKind.INSERT and nulls.issuperset(touched(parsed, table))
        for (_, parsed), nulls in ((one, mine), (other, its))
    )
    return is_bare or bool(mine & its)


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
    one: tuple[Event, Statement], other: tuple[Event, Statement], table: Table
) -> bool:
    """Tell whether two statements name rows of which a column of the key differs."""
    mine, its = _named(*one, table), _named(*other, table)
    return any(mine[name] != its[name] for name in mine.keys() & its.keys())


def _named(event: Event, statement: Statement, table: Table) -> dict[str, str]:
    """Return the values of key columns that are known before any event is executed."""
    found = {}
    for name, tokens in statement.key.items():
        if name not in table.key or len(tokens) != 1:
            continue
        [token] = tokens
        is_parameter = token.kind == "parameter"
        value = event.values.get(token.text[1:]) if is_parameter else literal(token)
        if value is not None:
            with suppress(ValueError):
                found[name] = canonical(table.columns[name], as_text(value))
    return found


def with_comparable_keys(control: Control, definition: GroupDefinition) -> GroupDefinition:
    """Return a group whose declared rows have the values that `row_keys.canonical` makes of them.

    Raises:
        InvalidInput: a value is none of its column's type.
    """
    known: dict[str, Table | None] = {}

    def row(one: DeclaredRow) -> DeclaredRow:
        if one.table not in known:
            known[one.table] = Table.read(control, *one.table.split("."))
        table = known[one.table]
        if table is None:
            return one
        try:
            key = {
                name: canonical(table.columns.get(name, "text"), text)
                for name, text in one.key.items()
            }
        except ValueError as error:
            what, _, do = str(error).partition("; ")
            raise InvalidInput(what, where=f"group {definition.group.group}", do=do) from None
        return one.model_copy(update={"key": key})

    group = definition.group
    changed = {
        name: tuple(map(row, rows))
        for name, rows in (("rows", group.rows), ("reads", group.reads))
        if rows
    }
    return GroupDefinition(group.model_copy(update=changed)) if changed else definition


def moving(statement: Statement, table: Table, values: Mapping[str, object]) -> str:
    """Say where a statement has the text `now` for a time; empty if it has not.

    It would be another time whenever the statement is sent again.
    Source: org.apache.cassandra.serializers.TimestampSerializer (5.0.9).

    Args:
        statement: the statement.
        table: its table.
        values: of its parameters, as far as they are known.
    """
    found = sum(_is_now(token, values) for token in tokenized(statement.cql))
    if not found:
        return ""
    harmless = 0
    for column, tokens in {**statement.key, **statement.assigned}.items():
        number = sum(_is_now(token, values) for token in tokens)
        if number and _takes_time(table.columns.get(column, ""), tokens):
            return f"the column {column}"
        harmless += number
    # Else it is in a condition of another kind, or in what is selected.
    return "a condition or a function" if found > harmless else ""


def _is_now(token: Token, values: Mapping[str, object]) -> bool:
    """Tell whether a token is the text `now`, or a parameter that has it."""
    if token.kind not in ("text", "parameter"):
        return False
    given = values.get(token.text[1:]) if token.kind == "parameter" else literal(token)
    return any(text.strip().lower() == "now" for text in _texts(given))


def _takes_time(kind: str, tokens: Sequence[Token]) -> bool:
    """Tell whether a text in tokens may become a time: by the type of the column, or a function."""
    words = {*re.findall(r"\w+", kind)}
    return (
        "timestamp" in words
        or bool(words - _NATIVE - _WITH_PARTS)
        or any(token.kind == "word" and not token.is_word("NULL") for token in tokens)
    )


def _texts(value: object) -> Iterator[str]:
    """Yield the texts in a value of JSON's types."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for part in value.items() if isinstance(value, dict) else value:
            yield from _texts(list(part) if isinstance(part, tuple) else part)


def touched(statement: Statement, table: Table) -> tuple[str, ...]:
    """Return the columns that a statement writes, but for those of the key."""
    if statement.kind is StatementKind.DELETE and not statement.columns:
        return table.regular
    return tuple(name for name in statement.columns if name not in table.key)


def _appended_list(parsed: Statement, table: Table) -> str:
    """Return a column that has its elements twice if a statement is sent twice; empty if none has.

    Cassandra gives each element of a list a key of its own, another one each time.
    """
    if parsed.kind not in (StatementKind.INSERT, StatementKind.UPDATE):
        return ""
    return next((name for name in parsed.columns if table.columns[name].startswith("list<")), "")


def _cannot_restore(parsed: Statement, table: Table) -> str:
    """Return why the rows cannot be put back as they were; empty if they can."""
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
    """Return what tells whose table a statement must not use.

    Nobody writes or selects from the tables of Cassandra and Tidemark. Nobody writes the tables of
    journals and projections, which anybody may select from. Every table whose name is a word of a
    projection file that cannot be used counts as its own.

    Raises:
        InvalidInput: there is no directory of projection files.
    """
    # A run only executes what was checked, and projections are a tenth of what it would load.
    from tidemark.project.definition import catalog

    journals = _tables_of_journals(settings)
    everything = catalog.read_all(settings.projections_dir)
    definitions = [*everything.definitions, *(rollup.definition for rollup in everything.rollups)]
    projected = {one.target: one.name for one in definitions if one.table}
    named = {broken.name: _words(broken.file) for broken in everything.unusable}

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
        broken = next((name for name, words in named.items() if parsed.table in words), None)
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
    """Return the words of a file; none of one that cannot be read."""
    try:
        return set(re.findall(r"\w+", file.read_text(errors="replace")))
    except OSError:
        return set()
