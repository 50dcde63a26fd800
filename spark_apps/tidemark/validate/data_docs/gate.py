"""Great Expectations' verdict on a run: no time bucket may have findings of a check that blocks.

Great Expectations gets one row for each time bucket and one column for each check, never the
events.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pandas as pd

from tidemark.validate.data_docs import catalogue
from tidemark.validate.data_docs.catalogue import Expectation
from tidemark.validate.data_docs.small_table import unmet
from tidemark.validate.findings.check import Check, Severity


def blocked(
    counts: Mapping[tuple[int, str], int], checks: Sequence[Check], buckets: Collection[int]
) -> set[tuple[int, str]]:
    """Return the time buckets that may not pass, each with the check that blocks it.

    `counts`: the number of findings by time bucket (epoch ms) and check. `buckets`: the time
    buckets that the run has checked; those of `counts` are judged as well.
    """
    blocking = [check.name for check in checks if check.severity is Severity.BLOCKS]
    judged = sorted({*buckets, *(bucket for bucket, _ in counts)})
    table = pd.DataFrame(
        {name: [counts.get((bucket, name), 0) for bucket in judged] for name in blocking}
    ).assign(time_bucket=judged)
    kind = catalogue.expectation_types()["expect_column_values_to_be_in_set"]
    suite = [Expectation(kind, {"column": name, "value_set": [0]}) for name in blocking]
    return {
        (failure.time_bucket, blocking[failure.index]) for failure in unmet(table, suite, judged)
    }
