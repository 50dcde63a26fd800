"""The checks that warn: events out of order, and partitions too large for their bucket size."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidemark.partitioning.keys import TICKS_PER_MS, BucketSize
from tidemark.validate.findings import partition_size, sequence

TAG_ROWS = (
    "persistence_id string, sequence_nr bigint, timestamp string, tag string,"
    " tag_pid_sequence_nr bigint, ticks bigint, time_bucket bigint"
)


def rows_of(frame: DataFrame) -> set[tuple[object, ...]]:
    """Return (check, persistence id, tag, number, expected, time bucket, detail) of findings."""
    names = (
        "check_name", "persistence_id", "tag", "number", "expected", "time_bucket", "detail",
    )  # fmt: skip
    return {tuple(row[name] for name in names) for row in frame.collect()}


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([], set()),
        ([10], set()),
        ([10, 10, 11], set()),
        ([10, 9, 11], {(2, "1.0 ms older than sequence nr 1")}),
        (
            [1000, 2, 1],
            {(2, "998.0 ms older than sequence nr 1"), (3, "1.0 ms older than sequence nr 2")},
        ),
    ],
)
def test_event_older_than_the_one_before_it(
    spark: SparkSession, times: list[int], expected: set[tuple[int, str]]
) -> None:
    index = spark.createDataFrame(
        [("a", number, "", ms * TICKS_PER_MS, 0) for number, ms in enumerate(times, 1)]
        # Another persistence id has a clock of its own.
        + [("b", 1, "", 0, 0)],
        "persistence_id string, sequence_nr bigint, timestamp string, ticks bigint,"
        " time_bucket bigint",
    )
    assert rows_of(sequence.out_of_order(index)) == {
        ("event_out_of_order", "a", "", number, None, 0, detail) for number, detail in expected
    }


@pytest.mark.parametrize(
    ("size", "rows", "advice"),
    [
        (BucketSize.DAY, 10, None),
        (BucketSize.DAY, 11, "bucket size Hour would fit"),
        (BucketSize.DAY, 240, "bucket size Hour would fit"),
        (BucketSize.DAY, 241, "bucket size Minute would fit"),
        (BucketSize.HOUR, 11, "bucket size Minute would fit"),
        (BucketSize.MINUTE, 20, None),
        (BucketSize.MINUTE, 21, "no bucket size is finer than Minute"),
    ],
)
def test_partition_with_more_rows_than_is_advised(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    size: BucketSize,
    rows: int,
    advice: str | None,
) -> None:
    monkeypatch.setattr(partition_size, "ROWS_ADVISED", 10)
    monkeypatch.setattr(partition_size, "MINUTE_ROWS_ADVISED", 20)
    frame = spark.createDataFrame(
        [(f"p{row % 3}", row, "", "red", row, 0, 60) for row in range(rows)]
        + [("p", 1, "", "red", 1, 0, 0), ("p", 1, "", "blue", 1, 0, 60)],
        TAG_ROWS,
    )
    most = partition_size.advised(size, 1)
    detail = (
        f"{rows} rows (0.0 MB of payload, estimated) in one {size} partition,"
        f" at most {most} are advised; {advice}"
    )
    assert rows_of(partition_size.large_partitions(partition_size.sizes(frame), size, 1)) == (
        {("tag_partition_too_large", "", "red", rows, most, 60, detail)} if advice else set()
    )


@pytest.mark.parametrize(
    ("rows", "row_bytes", "expected"),
    [
        (10, 10 << 20, None),
        (
            11,
            10 << 20,
            "11 rows (110.0 MB of payload, estimated) in one Hour partition, at most 10",
        ),
        (2, 60 << 20, "2 rows (120.0 MB of payload, estimated) in one Hour partition, at most 1"),
    ],
)
def test_partition_with_more_bytes_than_are_advised(
    spark: SparkSession, rows: int, row_bytes: int, expected: str | None
) -> None:
    frame = spark.createDataFrame([("p", n, "", "red", n, 0, 0) for n in range(rows)], TAG_ROWS)
    sizes = partition_size.sizes(frame)
    found = rows_of(partition_size.large_partitions(sizes, BucketSize.HOUR, row_bytes))
    advice = "are advised; bucket size Minute would fit"
    assert [row[-1] for row in found] == ([f"{expected} {advice}"] if expected else [])
