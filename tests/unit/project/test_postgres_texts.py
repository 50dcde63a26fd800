"""Texts that PostgreSQL cannot store, in columns of each type."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tidemark.project.transformation.row_key import unstorable_text

ZERO, ESCAPE, ESCAPED = "a\0b", "\\u0000", "\\\\u0000"
"""U+0000, and the letters of its escape in JSON after one and after two backslashes."""


@pytest.mark.parametrize(
    ("kind", "value", "is_found"),
    [
        ("string", ZERO, True),
        ("string", ESCAPE, False),
        ("string", None, False),
        ("binary", b"\0", False),
        ("array<string>", ["a", ZERO], True),
        ("array<string>", [ESCAPE, ESCAPED, None], False),
        ("array<string>", [ESCAPE + ZERO], True),
        ("map<string, int>", {ZERO: 1}, True),
        ("map<string, int>", {ESCAPE: 1}, False),
        ("struct<a: array<struct<b: string>>>", ([(ZERO,)],), True),
        ("struct<a: array<struct<b: string>>>", ([(ESCAPED,), (None,)],), False),
        ("array<string>", ["\\" + ZERO], True),
        ("array<string>", ["\\\\" + ZERO], True),
    ],
)
def test_texts_with_the_character_zero(
    spark: SparkSession, kind: str, value: object, *, is_found: bool
) -> None:
    rows = spark.createDataFrame([(value,)], f"`the.value` {kind}")
    [row] = rows.select(unstorable_text(rows.schema).alias("problem")).collect()
    assert row["problem"] == ("the.value has the character U+0000" if is_found else None)
