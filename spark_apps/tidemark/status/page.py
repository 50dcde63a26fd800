"""Pages of answers, their tokens, and numbers that may be bounds or unknown."""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tidemark.errors import InvalidInput

LIMIT = 50
"""The default number of rows of a page."""
MOST = 1000
"""The most rows of a page."""
T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """A part of an answer.

    Attributes:
        items: the rows; where rows are filtered there may be fewer than the limit.
        next: the token of the next page; None if there is none.
    """

    items: Sequence[T]
    next: str | None = None


@dataclass(frozen=True)
class Amount:
    """A number, as far as a bounded read knows it.

    Attributes:
        number: the number; None if it is unknown.
        is_at_least: whether it is a lower bound, since counting ended there.
        unknown: why it is unknown.
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
        """Whether it is known to be above 0."""
        return bool(self.number)


ZERO = Amount(0)


def unknown(why: str) -> Amount:
    """Return a number that no stored row tells."""
    return Amount(None, unknown=why)


def bounded(number: int, most: int) -> Amount:
    """Return a number that was counted up to one more than `most`."""
    return Amount(min(number, most), is_at_least=number > most)


def token(kind: str, *values: object) -> str:
    """Return the token of a place in an answer of a kind."""
    return urlsafe_b64encode(json.dumps([kind, *values]).encode()).decode().rstrip("=")


def place(kind: str, text: str | None, *types: type) -> list[Any] | None:
    """Return the values of a token; None without a token.

    Raises:
        InvalidInput: it is no token of this kind.
    """
    if text is None:
        return None
    try:
        decoded = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        found = json.loads(decoded)
    except (binascii.Error, ValueError):
        found = None
    is_fitting = (
        isinstance(found, list)
        and found[:1] == [kind]
        and len(found) == len(types) + 1
        and all(isinstance(value, of) for value, of in zip(found[1:], types, strict=True))
    )
    if not is_fitting or not isinstance(found, list):
        raise InvalidInput(
            f"no token of a page of {kind}: {text!r:.100}",
            where="--after",
            do="copy it from the end of the page before, with the same command and options",
        )
    return found[1:]


def state_of(kind: str, text: str | None) -> bytes | None:
    """Return the paging state of Cassandra's in a token.

    Raises:
        InvalidInput: it is no token of this kind.
    """
    values = place(kind, text, str)
    try:
        return None if values is None else bytes.fromhex(values[0])
    except ValueError:
        raise InvalidInput(
            f"no token of a page of {kind}: {text!r:.100}", where="--after", do="copy it once more"
        ) from None


def state_token(kind: str, state: bytes | None) -> str | None:
    """Return the token of a paging state of Cassandra's; None without one."""
    return None if state is None else token(kind, state.hex())
