"""Tag rules over payloads that Spark must not read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidemark.spark.shapes import ddl
from tidemark.tag_write import rules, shapes

UNREADABLE = """\
/*---
tag: unreadable
event: balance DECIMAL(9,2)
---*/

balance IS NULL
"""


def test_a_number_that_would_be_written_out_makes_an_event_unreadable(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "unreadable.sql").write_text(UNREADABLE)
    loaded = rules.load(tmp_path)
    rules.check(spark, loaded)
    payloads = [
        b'{"balance":2}',
        b'{"balance":15E-2000000}',
        b'{"balance":"15E-2000000"}',
        b'{"balance":3E2,"note":"15E-2000000"}',
        b"not JSON",
    ]
    nothing = dict.fromkeys(shapes.READ)
    rows: list[Any] = [
        {**nothing, "sequence_nr": number, "event": event} for number, event in enumerate(payloads)
    ]
    messages = spark.createDataFrame(rows, ddl(shapes.READ))
    tagged = rules.with_rule_tags(messages, loaded).orderBy("sequence_nr").collect()
    assert [row.tags for row in tagged] == [[], ["unreadable"], ["unreadable"], [], ["unreadable"]]
