"""The verdict of Great Expectations on a small table, time bucket by time bucket."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from tidemark.validate.data_docs import quiet_gx
from tidemark.validate.data_docs.catalogue import ROW_COUNTS, Expectation

if TYPE_CHECKING:
    from great_expectations.core.batch_definition import BatchDefinition

_RESULT_FORMAT = {"result_format": "COMPLETE", "return_unexpected_index_query": False}


@dataclass(frozen=True)
class Unmet:
    """An expectation that a row, or a time bucket as a whole, does not meet.

    Attributes:
        place: of the expectation in the sequence of them.
        time_bucket: epoch ms.
        row: the row's number in the table; None of a time bucket.
        observed: what was found of a time bucket, as a clause; empty of a row.
    """

    place: int
    time_bucket: int
    row: int | None
    observed: str = ""


class CannotBeJudged(Exception):
    """An expectation fails with an error at this table; `place` is that of the expectation."""

    def __init__(self, place: int, why: str) -> None:
        """Keep the place and the error's message."""
        super().__init__(place, why)
        self.place = place
        self.why = why


def unmet(
    table: pd.DataFrame, expectations: Sequence[Expectation], buckets: Collection[int]
) -> Iterator[Unmet]:
    """Yield what the table does not meet.

    Each time bucket is judged by itself, so that the verdict on it is the same however many others
    a run looks at. Of one without rows only the number of its rows is judged. A verdict that
    depends on nothing but its row is found for all rows at once, since each look of Great
    Expectations at a table takes some 20 ms.

    Args:
        table: with a column time_bucket (epoch ms) and a row number as index.
        expectations: what is expected of it; the columns that they name are there.
        buckets: the time buckets, epoch ms, that are judged; the table has no others.

    Raises:
        CannotBeJudged: an expectation fails with an error, such as a text compared to a number.
    """
    judge = _Judge(expectations, quiet_gx.frames())
    places = range(len(expectations))
    by_row = [place for place in places if expectations[place].is_by_row]
    others = [place for place in places if not expectations[place].is_by_row]
    counts = [place for place in others if expectations[place].kind.name in ROW_COUNTS]
    if len(table):
        yield from judge.unmet(table, by_row)
    parts = dict(iter(table.groupby("time_bucket")))
    for bucket in sorted(buckets):
        if bucket in parts:
            yield from judge.unmet(parts[bucket], others, bucket)
        else:
            yield from judge.unmet(table[:0], counts, bucket)


@dataclass(frozen=True)
class _Judge:
    """Great Expectations with the expectations, and what makes a batch of a frame."""

    expectations: Sequence[Expectation]
    batches: BatchDefinition[Any]

    def unmet(
        self, frame: pd.DataFrame, places: Sequence[int], bucket: int | None = None
    ) -> Iterator[Unmet]:
        """Yield what a frame does not meet of some expectations; `bucket` if it is of one."""
        from great_expectations import ExpectationSuite

        if not places:
            return
        asked = [self.expectations[place].made(place) for place in places]
        suite = ExpectationSuite(name="result", expectations=asked)
        batch = self.batches.get_batch({"dataframe": frame})
        for judged in batch.validate(suite, result_format=_RESULT_FORMAT).results:
            if judged.success:
                continue
            # Results have an order of their own.
            config: Any = judged.expectation_config
            place = config.meta["place"]
            _require_judged(place, judged.exception_info)
            rows = judged.result.get("unexpected_index_list", ())
            for row in rows:
                yield Unmet(place, int(frame["time_bucket"][row]), int(row))
            if rows:
                continue
            if bucket is None:
                raise CannotBeJudged(place, "no row is named that does not meet it")
            yield Unmet(place, bucket, None, _observed(judged.result))


def _require_judged(place: int, info: dict[str, Any]) -> None:
    """Raise CannotBeJudged if a result has an error: it is there by itself, or by metric."""
    for part in (info, *(value for value in info.values() if isinstance(value, dict))):
        if part.get("exception_message"):
            raise CannotBeJudged(place, str(part["exception_message"]).splitlines()[0])


def _observed(result: dict[str, Any]) -> str:
    """Return what was found: a number, or what is not in a set, where Great Expectations says."""
    found = result.get("observed_value")
    if found is None:
        found = result.get("partial_unexpected_list")
    if found is None:
        return "not met"
    if isinstance(found, dict):
        found = found.get("values", found)
    if isinstance(found, list):
        return f"observed {', '.join(map(str, found))}"
    return f"observed {found:g}" if isinstance(found, float) else f"observed {found}"
