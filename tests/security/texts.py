"""Texts that mean something to one of the languages and systems that they pass through."""

from __future__ import annotations

FORGED = "tag-write: error: all is lost"
"""A line that no application has written."""
TEXTS = {
    "CQL": "'; DROP TABLE messages; --",
    "quoted CQL": '"; TRUNCATE messages; //',
    "Spark SQL": "` OR 1 = 1) --",
    "variable of Spark": "${spark.cassandra.auth.password}",
    "shell": "$(touch broken_in) `touch broken_in`; touch broken_in | touch broken_in &",
    "option": "--apply",
    "Jinja": "{{ conn.cassandra_default.password }}{% raw %}",
    "format": "{0.__class__} %(password)s %s %n",
    "HTML": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "path": "../../../../../../etc/passwd",
    "newline": f"a\n{FORGED}\r\n{FORGED}",
    "separator": f"a\u2028{FORGED}\u0085{FORGED}",
    "terminal": "\x1b[2J\x1b]0;owned\x07\x9b31m",
    "NUL": "a\0b",
    "direction": "a\u202etxt.exe\u2066",
    "JSON": '\\"}, {"x": "\\u0000"}',
    "CSV": "=cmd|' /C calc'!A0,;\t",
    "long": "l" * 30_000,
    "several code points": "e\u0301\U0001f600",
    "blank": " ",
}
"""By the language that they are about. The long one is persistence id and tag at once, and keys of
Cassandra have 65,535 bytes at most."""
SENDABLE = {name: text for name, text in TEXTS.items() if name not in ("NUL", "long")}
"""Those that a command line takes, and that a file's name can be."""


def raw_controls(text: str) -> set[str]:
    """Return the characters that steer a terminal, or pretend to be another line."""
    return {sign for sign in text if sign != "\n" and not sign.isprintable() and sign != "\t"}
