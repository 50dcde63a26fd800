"""Finds the events for which a definition's SELECT or function fails, by bisection.

Spark reports an error, such as an overflow or a division by zero, but not its row.
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
"""Most failing events to search for: each costs about two jobs per bisection of the batch, and if
more fail, the events are hardly the cause."""
_HASH = "_place"
_FIRST, _LAST = -(2**63), 2**63 - 1

Causes = Mapping[tuple[str, int], str]


class _NotOfEvents(Exception):
    """No single event fails, or too many events fail."""


@shaped(events=shapes.READABLE)
def find(analyzed: AnalyzedDefinition, events: DataFrame) -> Causes:
    """Return the cause of each event that fails alone, by persistence id and sequence nr.

    Empty if the events fail only in combination, or if more than MOST fail. Errors of jobs that are
    not caused by rows are raised.
    """
    event_hash = F.xxhash64("persistence_id", "sequence_nr")
    hashed = events.withColumn(_HASH, event_hash).localCheckpoint()
    causes: dict[tuple[str, int], str] = {}
    try:
        _search(analyzed, hashed, _FIRST, _LAST, causes)
    except _NotOfEvents:
        return {}
    return causes


def failures(causes: Causes, events: DataFrame) -> DataFrame:
    """Return the causes as a frame of the columns of EVENT and cause."""
    rows = [(pid, number, cause) for (pid, number), cause in causes.items()]
    return events.sparkSession.createDataFrame(rows, ddl({**shapes.EVENT, "cause": "string"}))


def _search(
    analyzed: AnalyzedDefinition,
    hashed: DataFrame,
    first: int,
    last: int,
    causes: dict[tuple[str, int], str],
) -> None:
    """Add the causes of failing events in a range of hashes; the complete range must fail."""
    middle = (first + last) // 2
    previous_count = len(causes)
    for low, high in ((first, middle), (middle + 1, last)):
        part = hashed.where(F.col(_HASH).between(low, high)).drop(_HASH)
        cause = _cause(analyzed, part)
        if cause is None:
            continue
        events = part.select("persistence_id", "sequence_nr").take(2)
        if len(events) == 1:
            causes[(events[0].persistence_id, events[0].sequence_nr)] = cause
        elif low < high:
            _search(analyzed, hashed, low, high, causes)
        if len(causes) > MOST:
            raise _NotOfEvents
    if len(causes) == previous_count:
        raise _NotOfEvents


def _cause(analyzed: AnalyzedDefinition, events: DataFrame) -> str | None:
    try:
        analyze.apply(analyzed, events).write.format("noop").mode("overwrite").save()
    except Exception as error:
        if not is_of_rows(error):
            raise
        return one_line(reason_of(error))
    return None
