"""Cassandra dies in the middle of a run: the run stops with one line, and the next finishes."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded.cassandra.server import Cassandra
from embedded.machine import processes
from embedded.spark import environment as embedded_spark
from tests.faults.killing import start_until, wait_for_locks
from tests.faults.seams import Seam
from tests.integration.support import ROOT, Journal, control_of
from tests.integration.tag_write.test_tag_write import (
    a_small_journal,
    comparable,
    expected_tag_views,
    window,
)

DEADLINE_S = 240


@pytest.mark.parametrize(
    ("application", "options", "boundary"),
    [
        pytest.param("tag_write", window(0, 6), Seam.TAG_VIEWS_WRITTEN, marks=pytest.mark.long),
        pytest.param(
            "reconcile",
            ("rebuild", "--all", "--apply"),
            Seam.TABLE_EMPTIED,
            marks=pytest.mark.soak,
        ),
    ],
)
def test_run_stops_with_one_line_and_the_next_run_finishes(
    tmp_path: Path, application: str, options: tuple[str, ...], boundary: Seam
) -> None:
    node = Cassandra(tmp_path / "cassandra")
    try:
        endpoint = node.start()
        environment = {**embedded_spark.environment(), **endpoint.environment()}
        with control_of(endpoint) as control:
            journal = Journal.create(
                control, environment, SPARK_MASTER="local[2]", LOCK_TTL="10", CASSANDRA_TIMEOUT="5"
            )
            journal.insert("messages", a_small_journal())
        server = processes.running("cassandra", tmp_path / "cassandra" / "run")
        assert server is not None
        script = ROOT / "spark_apps" / f"{application}.py"
        started = start_until(journal, boundary, application, *options, ends=server.pid)
        _, stderr = started.communicate(timeout=DEADLINE_S)
        assert started.returncode == 1, stderr
        [line] = [line for line in stderr.splitlines() if ": error: " in line]
        assert "Cassandra" in line
        assert "Traceback" not in stderr

        with control_of(node.start()) as control:
            journal.control = control
            wait_for_locks(journal)
            again = journal.start(script, *options)
            _, stderr = again.communicate(timeout=DEADLINE_S)
            assert again.returncode == 0, stderr
            rows = journal.rows("tag_views")
            assert comparable(rows) == comparable(expected_tag_views(a_small_journal()))
    finally:
        node.stop()
