"""Numbers in sentences for people."""

from __future__ import annotations

_LONGEST_CAUSE = 200


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 bucket`, `2 buckets`, `1,000 buckets`; `plural` where it is not the noun and an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def one_line(text: str) -> str:
    """A text as the cause of a quarantined event: one line of bounded length."""
    return " ".join(text.split())[:_LONGEST_CAUSE]
