"""A Kafka that goes away in the middle of a run of replicate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embedded.kafka.server import Kafka
from tests.integration.kafka_topic import Topic
from tests.integration.support import Journal
from tidemark.replicate.kafka.topics import Topics


@pytest.mark.long
def test_run_stops_with_one_line_and_the_next_run_finishes(
    make_journal: Callable[..., Journal], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Kafka(tmp_path)
    address = broker.start()
    try:
        topic, journal = Topic(address), make_journal()
        topic.feeds(journal)
        topic.append("a", [1])
        topic.flush()
        offsets = Topics.offsets

        def and_stop(*values: Any) -> Any:
            found = offsets(*values)
            broker.stop()
            return found

        with monkeypatch.context() as patched:
            patched.setattr(Topics, "offsets", and_stop)
            lost = journal.run("replicate")
        assert lost.status == 1
        [line] = lost.error_lines
        assert "Kafka failed a Spark job: " in line
        assert f"({address}); check that it is up, and run again" in line
        assert broker.start() == address
        assert journal.run("replicate").status == 0
        assert [row["seq_nr"] for row in journal.rows("journal")] == [1]
    finally:
        broker.stop()
