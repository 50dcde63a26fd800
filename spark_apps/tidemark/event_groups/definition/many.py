"""The syntax of selects of many rows, and of writes for each of these rows, for the Spark engine.

Cassandra evaluates the conditions of a scan; without any, the complete table is read. A write
names its row by the complete key, so that its before-image can be read by key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemark.event_groups.definition.model import Compensation, Event
from tidemark.event_groups.definition.statement import Statement, StatementKind
from tidemark.event_groups.definition.tokens import Refused, Token, split, split_words, tokenized

_SIGNS = ("=", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class Scan:
    """A select of many rows.

    Attributes:
        columns: the selected columns; empty if all.
        conditions: the column, sign and value of each condition.
    """

    columns: tuple[str, ...]
    conditions: tuple[tuple[str, str, Token], ...]


@dataclass(frozen=True)
class Write:
    """A write for each of many rows; `values` includes the columns of the key."""

    values: Mapping[str, Token]


def is_value(token: Token) -> bool:
    """Tell whether a token is a parameter or a literal."""
    constant = token.is_word("NULL", "TRUE", "FALSE")
    return token.kind in ("parameter", "text", "number") or constant


def literal(token: Token) -> str | None:
    """Return the text of a literal."""
    if token.kind == "text":
        return token.text[1:-1].replace("''", "'")
    return None if token.is_word("NULL") else token.text


def scan(text: str) -> Scan:
    """Parse a select that `statement.parse` accepts.

    Raises:
        Refused: it selects more than plain columns, or has conditions other than comparisons.
    """
    tokens = tokenized(text)
    from_index = next(index for index, token in enumerate(tokens) if token.is_word("FROM"))
    selected = split(tokens[1:from_index], ",")
    columns: tuple[str, ...] = ()
    if [token.text for token in tokens[1:from_index]] != ["*"]:
        if any(len(part) != 1 or part[0].kind not in ("word", "quoted") for part in selected):
            raise Refused("it selects more than columns of many rows", "name columns, or *")
        columns = tuple(part[0].name for part in selected)
    rest = tokens[from_index + 4 :]
    if len(rest) > 1 and rest[-2].is_word("ALLOW") and rest[-1].is_word("FILTERING"):
        rest = rest[:-2]
    if not rest:
        return Scan(columns, ())
    if not rest[0].is_word("WHERE"):
        raise Refused(f"it has {rest[0].text} and many rows", "leave it out")
    return Scan(columns, tuple(_condition(part) for part in split_words(rest[1:], "AND")))


def _condition(part: Sequence[Token]) -> tuple[str, str, Token]:
    if len(part) != 3 or part[1].text not in _SIGNS or not is_value(part[2]):
        text = " ".join(token.text for token in part)
        raise Refused(
            f"`{text}` cannot be a condition of many rows", "write `column = value`, or < <= > >="
        )
    return part[0].name, part[1].text, part[2]


def write(text: str, parsed: Statement) -> Write:
    """Parse a write that `statement.parse` accepts.

    Raises:
        Refused: a value is neither a parameter nor a literal, or rows are not named by their key.
    """
    tokens = tokenized(text)
    values = {name: list(part) for name, part in parsed.key.items()}
    if parsed.is_range:
        raise Refused("it names ranges of rows for each of many", "write `column = value`")
    if parsed.kind is StatementKind.UPDATE:
        if any(token.is_word("TTL") for token in tokens):
            raise Refused("it updates many rows with a TTL", "insert them with it")
        starts = [
            next(index for index, token in enumerate(tokens) if token.is_word(word))
            for word in ("SET", "WHERE")
        ]
        for part in split(tokens[starts[0] + 1 : starts[1]], ","):
            values[part[0].name] = list(part[2:])
    if parsed.kind is StatementKind.DELETE and parsed.columns:
        raise Refused("it deletes columns of many rows", "write `UPDATE ... SET column = NULL`")
    for name, part in values.items():
        if len(part) != 1 or not is_value(part[0]):
            raise Refused(f"the value of {name} is no parameter or literal", "give it by one")
    return Write({name: part[0] for name, part in values.items()})


def refusal(
    event: Event, parsed: Statement | None, events: Mapping[str, Event]
) -> tuple[str, str, tuple[str | int, ...]] | None:
    """Return the fault of an event with many rows: what, the remedy, and the path in the event."""
    for number, need in enumerate(event.needs):
        if need.event is None or not events[need.event].many:
            continue
        if need.event != event.each:
            what = f"{need.event} has many rows, and one value is needed"
            return what, f"write `each: {need.event}`", ("needs", number, "event")
        if need.call is not None:
            return "a function would get many rows", "write sql", ("needs", number, "call")
    try:
        if event.many:
            if parsed is None or parsed.writes:
                return "only a select has many rows", "leave it out", ("many",)
            scan(str(event.statement))
        elif parsed is not None and event.each is not None and events[event.each].many:
            write(str(event.statement), parsed)
            if isinstance(event.rollback, Compensation):
                what = "many rows are not taken back by statements or functions"
                return what, "write restore or none", ("rollback",)
    except Refused as error:
        return error.what, error.do, ("statement",)
    return None
