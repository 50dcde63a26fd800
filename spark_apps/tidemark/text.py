"""Formatting of text for people: numbers with nouns, causes in one line, harmless characters."""

from __future__ import annotations

import re
from collections.abc import Sequence

_LONGEST_CAUSE = 200
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
DURATION = r"^[0-9]{1,9} ?[smhd]$"
"""The pattern of durations in settings and headers, such as `2 h`."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Format a number with its noun: `1 bucket`, `1,000 buckets`; `plural` if irregular."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def shortened(lines: Sequence[str], most: int) -> list[str]:
    """Return the first lines, and a line with the number of the other lines."""
    return [*lines[:most], *([f"and {len(lines) - most} more"] if len(lines) > most else [])]


def one_line(text: str) -> str:
    """Shorten a text to one line of bounded length, such as the cause of a quarantined event."""
    return " ".join(text.split())[:_LONGEST_CAUSE]


def seconds_of(duration: str) -> float:
    """Return the seconds of a number with a unit: ms, s, m or min, h, d."""
    number, unit = re.findall(r"\d+|[a-z]+", duration)
    return int(number) * _SECONDS[unit]


def path_name(text: str) -> str:
    """Return a text as the name of a file or directory: other characters become `_`.

    A colon does, too, since Hadoop takes the text before it for a scheme.
    """
    return re.sub(r"^[.]|[^A-Za-z0-9_.+-]", "_", text)


def harmless(text: str) -> str:
    """Replace characters that control a terminal or look like a line break by their codes.

    Persistence ids and tags may have any characters. Tabs and blanks stay.
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character == "\t"
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
