"""Great Expectations' verdict on a small table, for each time bucket."""

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
    """An expectation that a row or a time bucket does not meet.

    Attributes:
        index: the index of the expectation.
        time_bucket: epoch ms.
        row: the row's number in the table; None for a time bucket.
        observed: the value observed in a time bucket, as a clause; empty for a row.
    """

    index: int
    time_bucket: int
    row: int | None
    observed: str = ""


class CannotBeJudged(Exception):
    """The expectation at `index` fails with an error on this table."""

    def __init__(self, index: int, why: str) -> None:
        """`why` is the error's message."""
        super().__init__(index, why)
        self.index = index
        self.why = why


def unmet(
    table: pd.DataFrame, expectations: Sequence[Expectation], buckets: Collection[int]
) -> Iterator[Unmet]:
    """Yield the expectations that the table does not meet.

    Each time bucket is judged separately, so that its verdict does not depend on the other time
    buckets of the run. If it has no rows, only expectations of the number of rows are judged.
    Expectations by row are judged for all rows at once, since each validation of a table by Great
    Expectations takes about 20 ms.

    Args:
        table: with a column time_bucket (epoch ms) and a row number as index.
        expectations: the table has the columns that they name.
        buckets: the time buckets (epoch ms) to judge; the table has no others.

    Raises:
        CannotBeJudged: an expectation fails with an error, such as a text compared to a number.
    """
    judge = _Judge(expectations, quiet_gx.frames())
    indexes = range(len(expectations))
    by_row = [index for index in indexes if expectations[index].is_by_row]
    by_bucket = [index for index in indexes if not expectations[index].is_by_row]
    row_counts = [index for index in by_bucket if expectations[index].kind.name in ROW_COUNTS]
    if len(table):
        yield from judge.unmet(table, by_row)
    parts = dict(iter(table.groupby("time_bucket")))
    for bucket in sorted(buckets):
        if bucket in parts:
            yield from judge.unmet(parts[bucket], by_bucket, bucket)
        else:
            yield from judge.unmet(table[:0], row_counts, bucket)


@dataclass(frozen=True)
class _Judge:
    """Validates frames against expectations with Great Expectations."""

    expectations: Sequence[Expectation]
    batches: BatchDefinition[Any]

    def unmet(
        self, frame: pd.DataFrame, indexes: Sequence[int], bucket: int | None = None
    ) -> Iterator[Unmet]:
        """Yield the expectations that a frame, of one time bucket or of all, does not meet."""
        from great_expectations import ExpectationSuite

        if not indexes:
            return
        models = [self.expectations[index].as_model(index) for index in indexes]
        suite = ExpectationSuite(name="result", expectations=models)
        batch = self.batches.get_batch({"dataframe": frame})
        for result in batch.validate(suite, result_format=_RESULT_FORMAT).results:
            if result.success:
                continue
            # Results are not in the order of the expectations.
            config: Any = result.expectation_config
            index = config.meta["place"]
            _require_judged(index, result.exception_info)
            rows = result.result.get("unexpected_index_list", ())
            for row in rows:
                yield Unmet(index, int(frame["time_bucket"][row]), int(row))
            if rows:
                continue
            if bucket is None:
                raise CannotBeJudged(index, "no row is named that does not meet it")
            yield Unmet(index, bucket, None, _observed(result.result))


def _require_judged(index: int, info: dict[str, Any]) -> None:
    """Raise CannotBeJudged if a result has an error, either directly or for a metric."""
    for part in (info, *(value for value in info.values() if isinstance(value, dict))):
        if part.get("exception_message"):
            raise CannotBeJudged(index, str(part["exception_message"]).splitlines()[0])


def _observed(result: dict[str, Any]) -> str:
    """Return the observed number, or the values not in a set, as far as they are reported."""
    observed = result.get("observed_value")
    if observed is None:
        observed = result.get("partial_unexpected_list")
    if observed is None:
        return "not met"
    if isinstance(observed, dict):
        observed = observed.get("values", observed)
    if isinstance(observed, list):
        return f"observed {', '.join(map(str, observed))}"
    return f"observed {observed:g}" if isinstance(observed, float) else f"observed {observed}"
