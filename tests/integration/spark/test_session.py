"""The session of an application of its own, on one machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.support import ROOT, Journal

READ_LATE = """
from tidemark.journals.pekko import frames
from tidemark.settings import Settings
from tidemark.spark_session import open_session

settings = Settings.load()
spark = open_session("test", settings)
read = frames.scanning(spark, settings).localCheckpoint(eager=False)
moved = read.sparkSession.range(10).selectExpr("string(id) AS persistence_id", "id AS scanned_to")
both = moved.repartition("persistence_id").unionByName(read)
print("ids:", both.groupBy("persistence_id").count().count())
spark.stop()
"""


def test_table_that_is_first_read_beside_a_shuffle_is_read(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark waits for a place nearer to some of the tasks, and on one machine nothing ends that."""
    journal.insert("tag_scanning", [{"persistence_id": "p", "sequence_nr": 1}])
    script = tmp_path / "read_late.py"
    script.write_text(READ_LATE)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "spark_apps"))
    process = journal.start(script)
    stdout, stderr = process.communicate()
    assert (process.returncode, stdout) == (0, "ids: 11\n"), stderr
