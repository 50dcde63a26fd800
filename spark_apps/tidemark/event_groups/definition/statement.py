"""Parses the statements of events: their table, their rows, and the CQL that is sent.

Only idempotent statements are accepted, because a run after a crash sends them again: no
conditions, counters, appends to lists, or functions that return another value each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tidemark.cassandra.schema import table as quoted
from tidemark.errors import InvalidInput
from tidemark.event_groups.definition import functions
from tidemark.event_groups.definition.tokens import (
    Refused,
    Token,
    as_sent,
    is_value,
    split,
    split_words,
    tokenized,
)

WRITE_TIME = "tidemark_write_time"
"""The parameter of a write for its timestamp in microseconds."""


class StatementKind(StrEnum):
    """What a statement does."""

    SELECT = "select"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True)
class Statement:
    """A statement of an event.

    Attributes:
        columns: the columns that an insert or update writes, or that a delete names.
        key: the columns that conditions fix to one value each, with the tokens of the value; all
            columns of an insert.
        assigned: the columns that an insert or update writes, with the tokens of the value.
        is_range: whether it has conditions other than `column = value`.
        where: its conditions as they are sent; empty for an insert.
        may_leave_null: whether a column may be null after it, now or by its TTL.
        ttl: the seconds after which its values expire; None if the statement has no TTL.
        parameters: names of its parameters.
        cql: the statement as it is sent, with a parameter `WRITE_TIME` if it writes.
    """

    kind: StatementKind
    keyspace: str
    table: str
    columns: tuple[str, ...]
    key: Mapping[str, tuple[Token, ...]]
    assigned: Mapping[str, tuple[Token, ...]]
    is_range: bool
    where: str
    may_leave_null: bool
    ttl: int | None
    parameters: frozenset[str]
    cql: str

    @property
    def name(self) -> str:
        """Return `keyspace.table`."""
        return f"{self.keyspace}.{self.table}"

    @property
    def quoted(self) -> str:
        """Return the name of the table for CQL."""
        return quoted(self.keyspace, self.table)

    @property
    def writes(self) -> bool:
        """Return whether it writes."""
        return self.kind is not StatementKind.SELECT


@dataclass(frozen=True)
class Elsewhere:
    """Where, and how much later, a statement is sent again.

    Attributes:
        keyspaces: replacements of keyspaces; tables keep their names.
        age: seconds since it was first sent, by which its TTL is shortened. An expired TTL becomes
            a second, because the write must still hide older values.
    """

    keyspaces: Mapping[str, str] = field(default_factory=dict)
    age: int = 0


def parse(text: str, elsewhere: Elsewhere = Elsewhere()) -> Statement:
    """Parse a statement, as it is sent now or, later, elsewhere.

    Raises:
        Refused: an event may not have this statement.
    """
    tokens = tokenized(text)
    first = tokens[0].text.upper() if tokens else ""
    if first not in ("SELECT", "INSERT", "UPDATE", "DELETE"):
        raise Refused(f"{first or 'nothing'} is no statement of an event", _KINDS)
    return _Parser(tokens, elsewhere).statement(StatementKind(first.lower()))


_KINDS = "write a SELECT, INSERT, UPDATE or DELETE"


class _Parser:
    """Parses the tokens of one statement."""

    def __init__(self, tokens: Sequence[Token], elsewhere: Elsewhere) -> None:
        self._tokens, self._at = tokens, 1
        self._elsewhere = elsewhere
        self._ttl: int | None = None
        if call := functions.first_other(tokens):
            what = f"{call} is no function of Cassandra that gives the same value each time"
            raise Refused(what, "give the value as a parameter")

    def statement(self, kind: StatementKind) -> Statement:
        if kind is not StatementKind.SELECT:
            self._require_plain()
        parts = {
            StatementKind.SELECT: self._select,
            StatementKind.INSERT: self._insert,
            StatementKind.UPDATE: self._update,
            StatementKind.DELETE: self._delete,
        }[kind]
        return parts()

    def _require_plain(self) -> None:
        for token in self._tokens:
            if token.is_word("IF"):
                raise Refused("it has a condition IF", "select before it with `expect`")
            if token.is_word("TIMESTAMP"):
                raise Refused("it has a TIMESTAMP", "leave it out: its group has the write times")
            if token.is_word("JSON"):
                raise Refused("it has JSON", "name the columns")

    def _select(self) -> Statement:
        at = self._find("FROM")
        if self._tokens[1].is_word("JSON", "DISTINCT"):
            raise Refused(f"it selects {self._tokens[1].text}", "name the columns")
        self._at = at + 1
        keyspace, table = self._table()
        head = ["SELECT", "JSON", *as_sent(self._tokens[1:at]), "FROM", quoted(keyspace, table)]
        rest = self._tokens[self._at :]
        # Cassandra does not convert a limit, because it is not the value of a column.
        end = next((n for n, word in enumerate(rest) if word.is_word("LIMIT", "PER")), len(rest))
        if any(token.kind == "parameter" for token in rest[end:]):
            raise Refused("its limit is a parameter", "write a number")
        key = self._selected_key(rest)
        return self._build(
            StatementKind.SELECT, keyspace, table, (), key, True, "", [*head, *as_sent(rest)]
        )

    def _selected_key(self, rest: Sequence[Token]) -> dict[str, tuple[Token, ...]]:
        """Return the columns that a select's conditions fix to one value each."""
        if not rest or not rest[0].is_word("WHERE"):
            return {}
        ends = ("GROUP", "ORDER", "PER", "LIMIT", "ALLOW")
        end = next((index for index, token in enumerate(rest) if token.is_word(*ends)), len(rest))
        parts = split_words(rest[1:end], "AND")
        return {
            part[0].name: tuple(part[2:]) for part in parts if len(part) > 2 and part[1].text == "="
        }

    def _insert(self) -> Statement:
        self._expect("INTO")
        keyspace, table = self._table()
        names = [part[0].name for part in self._list() if len(part) == 1]
        self._expect("VALUES")
        values = self._list()
        if len(names) != len(values):
            raise Refused(f"it has {len(names)} columns and {len(values)} values", "correct it")
        ttl = self._using_ttl()
        self._require_end()
        sent = [
            *("INSERT INTO", quoted(keyspace, table), "(", ", ".join(map(_column, names)), ")"),
            *("VALUES (", ", ".join(" ".join(as_sent(value)) for value in values), ")"),
            *("USING TIMESTAMP", f":{WRITE_TIME}", *(["AND", *ttl] if ttl else [])),
        ]
        key = dict(zip(names, map(tuple, values), strict=True))
        return self._build(
            StatementKind.INSERT, keyspace, table, tuple(names), key, False, "", sent, key
        )

    def _update(self) -> Statement:
        keyspace, table = self._table()
        ttl = self._using_ttl()
        self._expect("SET")
        where_index = self._find("WHERE")
        assigned: dict[str, tuple[Token, ...]] = {}
        sets = []
        for part in split(self._tokens[self._at : where_index], ","):
            if len(part) < 3 or part[1].text != "=" or not is_value(part[2:]):
                raise Refused(
                    f"`{' '.join(word.text for word in part)}` is not the same if it is sent twice",
                    "write `column = value`",
                )
            assigned[part[0].name] = tuple(part[2:])
            sets.append(f"{_column(part[0].name)} = {' '.join(as_sent(part[2:]))}")
        self._at = where_index + 1
        key, is_range, conditions = self._conditions()
        sent = [
            *("UPDATE", quoted(keyspace, table), "USING TIMESTAMP", f":{WRITE_TIME}"),
            *(["AND", *ttl] if ttl else []),
            *("SET", ", ".join(sets), "WHERE", conditions),
        ]
        columns = tuple(assigned)
        return self._build(
            StatementKind.UPDATE,
            keyspace,
            table,
            columns,
            key,
            is_range,
            conditions,
            sent,
            assigned,
        )

    def _delete(self) -> Statement:
        from_index = self._find("FROM")
        parts = split(self._tokens[1:from_index], ",") if from_index > 1 else []
        if any(len(part) != 1 for part in parts):
            raise Refused("it deletes a part of a column", "delete or update whole columns")
        names = tuple(part[0].name for part in parts)
        self._at = from_index + 1
        keyspace, table = self._table()
        self._expect("WHERE")
        key, is_range, conditions = self._conditions()
        sent = [
            *("DELETE", ", ".join(map(_column, names)), "FROM", quoted(keyspace, table)),
            *("USING TIMESTAMP", f":{WRITE_TIME}", "WHERE", conditions),
        ]
        return self._build(
            StatementKind.DELETE, keyspace, table, names, key, is_range, conditions, sent
        )

    def _build(
        self,
        kind: StatementKind,
        keyspace: str,
        table: str,
        columns: tuple[str, ...],
        key: Mapping[str, tuple[Token, ...]],
        is_range: bool,
        where: str,
        sent: Sequence[str],
        assigned: Mapping[str, tuple[Token, ...]] | None = None,
    ) -> Statement:
        names = frozenset(token.text[1:] for token in self._tokens if token.kind == "parameter")
        if WRITE_TIME in names:
            raise Refused(f"it has a parameter {WRITE_TIME}", "give it another name")
        leaves_null = any(token.is_word("DELETE", "NULL", "TTL") for token in self._tokens)
        text = " ".join(part for part in sent if part)
        return Statement(
            *(kind, keyspace, table, columns, key, assigned or {}, is_range, where, leaves_null),
            *(self._ttl, names, text),
        )

    def _conditions(self) -> tuple[dict[str, tuple[Token, ...]], bool, str]:
        key, is_range = {}, False
        rest = self._tokens[self._at :]
        for part in split_words(rest, "AND"):
            if len(part) > 2 and part[1].text == "=":
                key[part[0].name] = tuple(part[2:])
            else:
                is_range = True
        return key, is_range, " ".join(as_sent(rest))

    def _table(self) -> tuple[str, str]:
        names = self._tokens[self._at : self._at + 3]
        if len(names) < 3 or names[1].text != ".":
            name = names[0].text if names else "nothing"
            raise Refused(f"{name} is no table with its keyspace", "write keyspace.table")
        self._at += 3
        keyspace, table = names[0].name, names[2].name
        keyspace = self._elsewhere.keyspaces.get(keyspace, keyspace)
        try:
            quoted(keyspace, table)
        except InvalidInput as error:
            raise Refused(error.what, error.do) from None
        return keyspace, table

    def _using_ttl(self) -> list[str]:
        if self._at >= len(self._tokens) or not self._tokens[self._at].is_word("USING"):
            return []
        self._at += 1
        self._expect("TTL")
        self._at += 1
        value = self._tokens[self._at - 1 : self._at]
        if not value or not value[0].text.isdecimal():
            raise Refused("its TTL is no number", "write the seconds")
        seconds = int(value[0].text)
        # A TTL of 0 means none.
        self._ttl = max(seconds - self._elsewhere.age, 1) if seconds else None
        return ["TTL", str(self._ttl or 0)]

    def _list(self) -> list[list[Token]]:
        if self._at >= len(self._tokens) or self._tokens[self._at].text != "(":
            raise Refused("there is no list in brackets where one must be", "correct it")
        depth, start = 0, self._at + 1
        for index in range(self._at, len(self._tokens)):
            depth += {"(": 1, ")": -1}.get(self._tokens[index].text, 0)
            if not depth:
                self._at = index + 1
                return split(self._tokens[start:index], ",")
        raise Refused("a bracket is not closed", "correct it")

    def _find(self, word: str) -> int:
        for index in range(self._at, len(self._tokens)):
            if self._tokens[index].is_word(word):
                return index
        raise Refused(f"it has no {word}", "correct it")

    def _expect(self, word: str) -> None:
        if self._at >= len(self._tokens) or not self._tokens[self._at].is_word(word):
            raise Refused(f"it has no {word} where it must be", "correct it")
        self._at += 1

    def _require_end(self) -> None:
        if self._at < len(self._tokens):
            raise Refused(f"{self._tokens[self._at].text} is too much", "leave it out")


def key_cql(statement: Statement, columns: Sequence[str]) -> str:
    """Return conditions that select the rows with the statement's values of `columns`."""
    return " AND ".join(
        f"{_column(name)} = {' '.join(as_sent(statement.key[name]))}" for name in columns
    )


def _column(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
