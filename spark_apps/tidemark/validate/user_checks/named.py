"""Users' checks whose header names a source, which is read only for them.

Findings of a source without time have no time bucket. If a source cannot be read, such as that of
an unknown projection, there is one finding without a time bucket, and the other checks are run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.errors import NO_RETRY_HELPS
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.findings import finding
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET, no_time_bucket
from tidemark.validate.user_checks.definition import UserCheck
from tidemark.validate.user_checks.evaluate import check_findings, selected
from tidemark.validate.user_checks.source import CheckSource, SourceKind

Reader = Callable[[RunContext, CheckSource, Sequence[int]], DataFrame]
"""Returns the rows of a source; for a source with time the rows of the time buckets (epoch ms),
with a column time_bucket. Raises an error of NO_RETRY_HELPS if there is no such source."""
Readers = Mapping[SourceKind, Reader]
NO_READERS: Readers = {}


@shaped(returns=shapes.FINDINGS)
def failures(
    run: RunContext,
    checks: Sequence[UserCheck],
    buckets: Sequence[int],
    readers: Readers,
    keep: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """Return a finding for each key of rows that fail a check, computed.

    The checks have sources other than KEYS. `buckets` (epoch ms, ascending) are those of the run.
    """
    parts = [_of_check(run, check, buckets, readers[check.source.kind], keep) for check in checks]
    return reduce(DataFrame.unionByName, parts, local_rows(run.spark, [], finding.SCHEMA))


def _of_check(
    run: RunContext,
    check: UserCheck,
    buckets: Sequence[int],
    read: Reader,
    keep: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    try:
        rows = read(run, check.source, buckets)
    except NO_RETRY_HELPS as error:
        detail = f"{check.prefix}{error}"
        row = (NO_TIME_BUCKET, check.check.name, "", "", 0, None, detail)
        return local_rows(run.spark, [row], finding.SCHEMA)
    result = selected(check, {check.source.table: rows})
    if check.source.has_time:
        return check_findings(result, check, buckets, keep)
    if "number" not in result.columns:
        result = result.withColumn("number", F.lit(0).cast("bigint"))
    return check_findings(
        result.withColumn("time_bucket", no_time_bucket()), check, [NO_TIME_BUCKET], keep
    )
