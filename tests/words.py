"""Words that texts for users avoid, each with what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

AVOIDED: Mapping[str, str] = {
    r"told|tells?|asked": "recorded, reports, requested",
    r"goes|gone|doomed": "is deleted, deleted, to delete; continues",
    r"mend(?:s|ed|ing)?": "repair, replace, fix",
    r"owed|owes?": "pending",
    r"nowhere|somewhere": "absent, present",
    r"as a whole|the whole of|(?:is|are|be|stays?|events) whole": "complete, all or nothing",
    r"stands?|standing": "is, exists, state",
    r"beside|behind|in front of": "compared with, next to, after, before",
    r"look(?:s|ed|ing)?(?! up\b| back\b)(?! ?-)": "check, read, search",
    r"ones|that one|each of them|one (?:that|which|whose)": "the noun",
    r"(?:an?|another|each|every|last|latter|newest|next|old|oldest|only|other|the|this|which) one"
    r"(?= (?:that|which|is|has|of|in|by|and|or|for|with)\b|[.,;:)]|$)": "the noun",
    r"for good|for ever|for the time being": "permanently, until ...",
    r"by itself|by themselves|of its own accord": "automatically, alone",
    r"(?:is|are|be|was|were) refused": "is rejected (input), fails (work)",
    r"what is (?:new|there)": "new events, existing rows",
    r"lies?|comes? back|came back": "is, returns",
    r"knows? of": "contains, has",
}
"""Patterns of whole words, and what to use in their place."""
_PATTERNS = [
    (re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.IGNORECASE), instead)
    for pattern, instead in AVOIDED.items()
]


def hits(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield each avoided word of a text with what is around it, and what to use instead."""
    text = " ".join(text.split())
    for pattern, instead in _PATTERNS:
        for found in pattern.finditer(text):
            around = text[max(0, found.start() - 40) : found.end() + 30]
            yield found[0], around, instead


def prose(markdown: str) -> str:
    """Return a Markdown page without code, comments and the targets of links."""
    text = re.sub(r"^```.*?^```|^    .*?$|<!--.*?-->", "", markdown, flags=re.M | re.S)
    text = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "CODE", text, flags=re.S)
    return re.sub(r"\]\([^)]*\)", "]", text)
