"""Tables and safe text in Markdown, for the modules that make the reference pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; the cells are Markdown already, a newline in them is a space."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(
        "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in line) + " |"
        for line in lines
    )


def code(text: str) -> str:
    """Return text as code; nothing for nothing."""
    return f"`{text}`" if text else ""


def plain(text: str) -> str:
    """Return a help text or a docstring in one line; of its signs only backquotes are Markdown."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else _escaped(part) for part in parts)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
