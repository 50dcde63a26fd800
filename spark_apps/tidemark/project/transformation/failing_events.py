"""The events for which a definition's SELECT or function fails, found by halves.

Spark tells what went wrong, as an overflow or a division by zero, but not in which row.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.errors import reason_of
from tidemark.project import shapes
from tidemark.project.analysis import analyze
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.spark.row_errors import is_of_rows
from tidemark.spark.shapes import ddl, shaped
from tidemark.text import one_line

MOST = 16
"""Failing events that are looked for: each costs some twice as many jobs as a batch can be halved,
and if more fail, it is hardly the events."""
_PLACE = "_place"
_FIRST, _LAST = -(2**63), 2**63 - 1

Causes = Mapping[tuple[str, int], str]


class _NotOfEvents(Exception):
    """No single event fails, or too many do."""


@shaped(events=shapes.READABLE)
def find(checked: AnalyzedDefinition, events: DataFrame) -> Causes:
    """Return the cause of each event that fails by itself, by persistence id and sequence nr.

    Empty if all of them together fail and no part does, or if more than MOST fail.

    Args:
        checked: the definition, which fails for the events.
        events: those that it fails for.

    Raises:
        Exception: what a job fails with that its rows are not to blame for.
    """
    place = F.xxhash64("persistence_id", "sequence_nr")
    placed = events.withColumn(_PLACE, place).localCheckpoint()
    causes: dict[tuple[str, int], str] = {}
    try:
        _search(checked, placed, _FIRST, _LAST, causes)
    except _NotOfEvents:
        return {}
    return causes


def failures(causes: Causes, events: DataFrame) -> DataFrame:
    """Return the causes as rows of EVENT and cause."""
    rows = [(pid, number, cause) for (pid, number), cause in causes.items()]
    return events.sparkSession.createDataFrame(rows, ddl({**shapes.EVENT, "cause": "string"}))


def _search(
    checked: AnalyzedDefinition,
    placed: DataFrame,
    first: int,
    last: int,
    causes: dict[tuple[str, int], str],
) -> None:
    """Look for the failing events in a range of places that fails as a whole."""
    middle = (first + last) // 2
    before = len(causes)
    for low, high in ((first, middle), (middle + 1, last)):
        part = placed.where(F.col(_PLACE).between(low, high)).drop(_PLACE)
        cause = _cause(checked, part)
        if cause is None:
            continue
        events = part.select("persistence_id", "sequence_nr").take(2)
        if len(events) == 1:
            causes[(events[0].persistence_id, events[0].sequence_nr)] = cause
        elif low < high:
            _search(checked, placed, low, high, causes)
        if len(causes) > MOST:
            raise _NotOfEvents
    if len(causes) == before:
        raise _NotOfEvents


def _cause(checked: AnalyzedDefinition, events: DataFrame) -> str | None:
    try:
        analyze.apply(checked, events).write.format("noop").mode("overwrite").save()
    except Exception as error:
        if not is_of_rows(error):
            raise
        return one_line(reason_of(error))
    return None
