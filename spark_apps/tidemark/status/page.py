"""Pages of answers, their tokens, and numbers that may be bounds or unknown."""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tidemark.errors import InvalidInput

LIMIT = 50
"""The default number of rows of a page."""
MOST = 1000
"""The most rows of a page."""
_MOST_PAGES = 10
"""The most pages that `all_of` reads."""
T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page of an answer.

    Attributes:
        items: the rows; if rows are filtered, a page may have fewer than the limit.
        next: the token of the next page; None if there is none.
    """

    items: Sequence[T]
    next: str | None = None


@dataclass(frozen=True)
class Amount:
    """A number from a bounded read.

    Attributes:
        number: the number; None if it is unknown.
        is_at_least: whether the number is a lower bound, because counting stopped there.
        unknown: why the number is unknown.
    """

    number: int | None
    is_at_least: bool = False
    unknown: str = ""

    def __str__(self) -> str:
        """Return the text for tables: `12`, `1,000+`, `unknown`."""
        if self.number is None:
            return "unknown"
        return f"{self.number:,}{'+' if self.is_at_least else ''}"

    @property
    def is_positive(self) -> bool:
        """Whether the number is known to be above 0."""
        return bool(self.number)


ZERO = Amount(0)


def unknown(why: str) -> Amount:
    """Return a number that is not stored, with the reason."""
    return Amount(None, unknown=why)


def bounded(number: int, most: int) -> Amount:
    """Return a count that stopped at `most` + 1."""
    return Amount(min(number, most), is_at_least=number > most)


def all_of(read: Callable[[str | None], Page[T]]) -> Iterator[T]:
    """Yield the rows of all pages, at most those of ten; `read` reads the page after a token."""
    after: str | None = None
    for _ in range(_MOST_PAGES):
        page = read(after)
        yield from page.items
        after = page.next
        if after is None:
            return


def token(kind: str, *values: object) -> str:
    """Return the token of a position in an answer of a kind."""
    return urlsafe_b64encode(json.dumps([kind, *values]).encode()).decode().rstrip("=")


def values_of(kind: str, text: str | None, *types: type) -> list[Any] | None:
    """Return the values of a token; None without a token.

    Raises:
        InvalidInput: `text` is not a token of this kind.
    """
    if text is None:
        return None
    try:
        decoded = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        parsed = json.loads(decoded)
    except (binascii.Error, ValueError):
        parsed = None
    is_fitting = (
        isinstance(parsed, list)
        and parsed[:1] == [kind]
        and len(parsed) == len(types) + 1
        and all(isinstance(value, of) for value, of in zip(parsed[1:], types, strict=True))
    )
    if not is_fitting or not isinstance(parsed, list):
        raise InvalidInput(
            f"no token of a page of {kind}: {text!r:.100}",
            where="--after",
            do="copy it from the end of the page before, with the same command and options",
        )
    return parsed[1:]


def state_of(kind: str, text: str | None) -> tuple[bytes | None, int]:
    """Return Cassandra's paging state and the rows to skip from a token; begin without a token.

    Raises:
        InvalidInput: `text` is not a token of this kind.
    """
    values = values_of(kind, text, str, int)
    if values is None:
        return None, 0
    try:
        return bytes.fromhex(values[0]) or None, values[1]
    except ValueError:
        raise InvalidInput(
            f"no token of a page of {kind}: {text!r:.100}", where="--after", do="copy it once more"
        ) from None


def state_token(kind: str, state: bytes | None, skip: int) -> str:
    """Return the token of a paging state and the rows to skip; None is the first page."""
    return token(kind, (state or b"").hex(), skip)
