"""The texts of Spark's own errors, in one line."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException

POSITION = re.compile(r"\(?line (\d+), pos (\d+)\)?|line (\d+) pos (\d+)")


def sentence(error: PySparkException) -> str:
    """Return the first line of Spark's message, without its code, its place and its plan."""
    text = str(error).strip().splitlines()[0]
    text = re.sub(r"^\[[A-Z_.0-9]+\] ", "", text)
    return POSITION.split(text)[0].rstrip(" ;.(")
