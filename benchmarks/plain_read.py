"""The floor of a projection by Spark: the plain connector reads the rows of one tag into nothing.

`plain_read.py KEYSPACE TAG FIRST END STEP` reads the time buckets FIRST, FIRST + STEP, ... below
END (epoch milliseconds) by their keys, with what a projection needs of a row. The last line of its
output counts them, from the same pass.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import Observation
from pyspark.sql import functions as F

from benchmarks.plain import FORMAT, session

COLUMNS = (
    "persistence_id", "tag_pid_sequence_nr", "sequence_nr", "timestamp", "ser_id", "ser_manifest",
    "event",
)  # fmt: skip


def main(keyspace: str, tag: str, first: str, end: str, step: str) -> None:
    """Read one tag."""
    spark = session("plain read")
    buckets = spark.range(int(first), int(end), int(step))
    keys = buckets.select(F.lit(tag).alias("tag_name"), F.col("id").alias("timebucket"))
    options = {"keyspace": keyspace, "table": "tag_views", "directJoinSetting": "on"}
    stored = spark.read.format(FORMAT).options(**options).load()
    counted = Observation()
    rows = keys.join(stored, on=keys.columns).select(*COLUMNS)
    observed = rows.observe(counted, F.count(F.lit(1)).alias("rows"))
    observed.write.format("noop").mode("overwrite").save()
    print(json.dumps({"rows": counted.get["rows"]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
