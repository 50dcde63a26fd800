"""What README and docs give their readers to type, taken from the pages themselves."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_PROGRAM = (
    r"\b(?:tag_write|validate|project|chain|purge|reconcile|cleanup|run_event_groups|status|observe)"
    r"\.py"
)


def commands(page: Path) -> list[str]:
    """Return what starts something of ours, in code blocks and in the text, in its order there."""
    starts = []
    for code in _codes(page.read_text().replace("\\\n", " ")):
        for command in re.findall(rf"{_PROGRAM} (?! *│).*|^make \w+.*", code.strip()):
            starts.append(re.sub(r"\s+#.*", "", command).strip())
    return list(dict.fromkeys(starts))


def blocks(page: Path, language: str) -> list[str]:
    """Return the code blocks of a page that are in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def _codes(text: str) -> list[str]:
    """Return the lines of the code blocks of a page, and what stands in backquotes elsewhere."""
    lines: list[str] = []
    prose: list[str] = []
    is_code = False
    for line in text.splitlines():
        if line.strip().startswith("```"):
            is_code = not is_code
        else:
            (lines if is_code else prose).append(line)
    return [*lines, *re.findall(r"`([^`]+)`", " ".join(prose))]
