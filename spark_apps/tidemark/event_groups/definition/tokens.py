"""The words and signs of CQL statements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<quoted>\"(?:[^\"]|\"\")+\")|(?P<parameter>:[A-Za-z]\w*)"
    rf"|(?P<number>{_UUID}|-?\d[\w.+-]*)"
    r"|(?P<word>[A-Za-z]\w*)|(?P<sign><=|>=|!=|\+=|-=|[^\s\w'\"]))"
)


class Refused(ValueError):
    """A statement that an event may not have: what is wrong, and what to do."""

    def __init__(self, what: str, do: str) -> None:
        super().__init__(what, do)
        self.what, self.do = what, do


@dataclass(frozen=True)
class Token:
    """A part of a statement; `kind` is the name of its group in the regular expression."""

    kind: str
    text: str

    def is_word(self, *words: str) -> bool:
        """Tell whether the token is one of these words of CQL."""
        return self.kind == "word" and self.text.upper() in words

    @property
    def name(self) -> str:
        """Return the identifier as Cassandra stores it."""
        return self.text[1:-1] if self.kind == "quoted" else self.text.lower()


def tokenized(text: str) -> list[Token]:
    """Split a statement into tokens.

    Raises:
        Refused: it is not CQL, has several statements, or a parameter without a name.
    """
    tokens, at = [], 0
    stripped = text.rstrip().removesuffix(";").rstrip()
    while at < len(stripped):
        match = _TOKEN.match(stripped, at)
        if match is None or match.lastgroup is None:
            raise Refused(f"not CQL: {stripped[at : at + 20]!r}", "correct it")
        tokens.append(Token(match.lastgroup, match[match.lastgroup]))
        at = match.end()
    for token in tokens:
        if token.text in (";", "?"):
            do = "write one statement" if token.text == ";" else "name it, such as `:id`"
            raise Refused(f"there is a `{token.text}` in it", do)
    return tokens


def as_sent(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield tokens as they are sent: parameters are sent as JSON, which Cassandra converts."""
    for token in tokens:
        yield f"fromJson({token.text})" if token.kind == "parameter" else token.text


def is_value(tokens: Sequence[Token]) -> bool:
    """Tell whether tokens are one literal, parameter or call, and therefore name no column.

    A cast, a type in brackets, may precede the value.
    """
    while tokens[0].text == "(" and (end := _end(tokens, 0)) < len(tokens):
        tokens = tokens[end:]
    first = tokens[0]
    if len(tokens) == 1:
        is_constant = first.is_word("NULL", "TRUE", "FALSE")
        return first.kind in ("text", "number", "parameter") or is_constant
    is_call = first.kind == "word" and tokens[1].text == "("
    is_collection = first.text in ("{", "[", "(")
    return (is_call or is_collection) and _end(tokens, 1 if is_call else 0) == len(tokens)


def _end(tokens: Sequence[Token], first: int) -> int:
    """Return the index after the bracket that closes the first one; too large if none does."""
    depth = 0
    for index in range(first, len(tokens)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(tokens[index].text, 0)
        if not depth:
            return index + 1
    return len(tokens) + 1


def split(tokens: Sequence[Token], sign: str) -> list[list[Token]]:
    """Split tokens at a sign outside of brackets."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token.text, 0)
        if token.text == sign and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    if not all(parts):
        raise Refused("a part between two commas is empty", "correct it")
    return parts


def split_words(tokens: Sequence[Token], word: str) -> list[list[Token]]:
    """Split tokens at a word of CQL."""
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.is_word(word):
            parts.append([])
        else:
            parts[-1].append(token)
    return parts
