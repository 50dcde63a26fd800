"""Why an event goes to quarantine, as text."""

from __future__ import annotations

_LONGEST_CAUSE = 200


def one_line(text: str) -> str:
    """A text as the cause of a quarantined event: one line of bounded length."""
    return " ".join(text.split())[:_LONGEST_CAUSE]
