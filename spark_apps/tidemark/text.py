"""Text for people: numbers with nouns, and causes in one line."""

from __future__ import annotations

_LONGEST_CAUSE = 200


def counted(number: int, noun: str, plural: str = "") -> str:
    """Format a number with its noun: `1 bucket`, `1,000 buckets`; `plural` if irregular."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def one_line(text: str) -> str:
    """Shorten a text to one line of bounded length, as the cause of a quarantined event."""
    return " ".join(text.split())[:_LONGEST_CAUSE]
