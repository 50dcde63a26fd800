"""Text for people: numbers with nouns, and causes in one line."""

from __future__ import annotations

import re
from collections.abc import Sequence

_LONGEST_CAUSE = 200


def counted(number: int, noun: str, plural: str = "") -> str:
    """Format a number with its noun: `1 bucket`, `1,000 buckets`; `plural` if irregular."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def shortened(lines: Sequence[str], most: int) -> list[str]:
    """Return the first lines, and how many there are beside them."""
    return [*lines[:most], *([f"and {len(lines) - most} more"] if len(lines) > most else [])]


def one_line(text: str) -> str:
    """Shorten a text to one line of bounded length, as the cause of a quarantined event."""
    return " ".join(text.split())[:_LONGEST_CAUSE]


def path_name(text: str) -> str:
    """Return a text as the name of one file or directory: other characters become `_`.

    A colon is one of them, since Hadoop reads a scheme before it.
    """
    return re.sub(r"^[.]|[^A-Za-z0-9_.+-]", "_", text)


def harmless(text: str) -> str:
    """Write every character that would steer a terminal, or look like another line, as its code.

    Persistence ids and tags are whatever an application has chosen. Tabs and blanks stay.
    """
    if text.isprintable():
        return text
    return "".join(
        sign
        if sign.isprintable() or sign == "\t"
        else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )
