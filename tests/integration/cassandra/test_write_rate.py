"""Limited runs in a real Cassandra: they write the same rows, and a lost lock ends their wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.integration.contexts import context
from tests.integration.support import Journal, Result, wait_until
from tests.integration.tag_write.test_tag_write import (
    comparable,
    expected_tag_views,
    message,
    window,
)
from tests.unit.cassandra.test_write_rate import Clock
from tidemark.cassandra import connector, control
from tidemark.cassandra.rate import WriteRate
from tidemark.settings import Settings
from tidemark.spark import gateway

pytestmark = pytest.mark.usefixtures("production")

RATE = 400
PART = RATE // 10


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock of the applications' own statements; nobody really waits for it."""
    clock = Clock()

    def rate(rows: int) -> WriteRate:
        return WriteRate(rows, elapsed=clock.elapsed, sleep=clock.sleep)

    monkeypatch.setattr(control, "WriteRate", rate)
    return clock


@pytest.fixture
def unlimited(spark: SparkSession) -> Iterator[None]:
    """Leave the session to other tests as they expect it."""
    yield
    connector.connect(spark, Settings())


def limited(journal: Journal, *arguments: str) -> Result:
    result = journal.run(*arguments, WRITE_RATE=str(RATE))
    assert result.status == 0, result.stderr
    return result


@pytest.mark.usefixtures("unlimited")
def test_limited_runs_write_and_delete_the_same_rows(journal: Journal, clock: Clock) -> None:
    messages = [
        message(pid, number, hours=number - 1, tags={"red", "blue"})
        for pid in ("a|1", "a|2", "b|ü")
        for number in range(1, 31)
    ]
    journal.insert("messages", messages)
    journal.insert("all_persistence_ids", [{"persistence_id": pid} for pid in ("a|1", "a|2")])
    limited(journal, "tag_write", *window(0, 30))
    written = journal.tag_tables()
    assert comparable(written["tag_views"]) == comparable(expected_tag_views(messages))

    began = clock.now
    arguments = ("--persistence-id", "a|1", "--persistence-id", "b|ü", "--apply")
    counts = limited(journal, "reconcile", "delete", *arguments).report["counts"]
    assert counts == {
        "tag_rows_deleted": 120,
        "progress_rows_deleted": 4,
        "scanning_rows_deleted": 2,
    }
    assert {row["persistence_id"] for row in journal.rows("tag_views")} == {"a|2"}
    assert clock.now - began >= (sum(counts.values()) - PART) / RATE

    limited(journal, "reconcile", "repair", "--apply")
    for name in ("tag_views", "tag_write_progress"):
        assert journal.rows(name) == written[name]

    began = clock.now
    counts = limited(
        journal, "purge", *window(0, 30), "--retention-days", "1", "--below-retention", "--apply"
    ).report["counts"]
    assert counts["partitions_deleted"] == 60
    assert journal.rows("tag_views") == []
    assert clock.now - began >= (60 - PART) / RATE


@pytest.mark.long
@pytest.mark.usefixtures("unlimited")
def test_the_connector_deletes_at_the_rate_the_rows_that_it_should(
    journal: Journal, spark: SparkSession
) -> None:
    run = context(journal, WRITE_RATE=str(RATE))
    connector.connect(spark, run.settings)
    rows = spark.range(100).select(F.format_string("id %03d", "id").alias("persistence_id"))
    into = (journal.keyspace, "all_persistence_ids")
    connector.write(rows, *into)
    assert len(journal.rows("all_persistence_ids")) == 100
    connector.delete(rows.where("persistence_id < 'id 090'"), *into)
    left = {row["persistence_id"] for row in journal.rows("all_persistence_ids")}
    assert left == {f"id {number:03d}" for number in range(90, 100)}


@pytest.mark.usefixtures("unlimited")
def test_a_write_that_waits_ends_when_the_locks_are_lost(
    journal: Journal, spark: SparkSession
) -> None:
    """A row every tenth of a second would take hours."""
    run = context(journal, WRITE_RATE="10")
    assert run.spark is spark
    rows = spark.range(100_000).select(F.col("id").cast("string").alias("persistence_id"))
    failed: list[Exception] = []

    def write() -> None:
        try:
            connector.write(rows, journal.keyspace, "all_persistence_ids")
        except Exception as error:
            failed.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    wait_until("some rows", lambda: bool(journal.rows("all_persistence_ids")))
    run.stop_jobs()
    writer.join(60)
    assert not writer.is_alive()
    assert "cancelled" in str(failed[0])
    wait_until("the task to end", lambda: not running_tasks(spark), 20)
    assert len(journal.rows("all_persistence_ids")) < 100_000


def running_tasks(spark: SparkSession) -> int:
    """Return how many tasks run, those of cancelled jobs included."""
    executors = gateway.context_of(spark).sc().statusTracker().getExecutorInfos()
    return sum(executor.numRunningTasks() for executor in executors)


GROUP = """
group: many
events:
  - {{name: read, many: true, statement: "SELECT persistence_id FROM {table}"}}
  - name: delete
    each: read
    after: [read]
    statement: DELETE FROM {table} WHERE persistence_id = :persistence_id
    needs: [{{event: read, as: persistence_id}}]
  - {{name: check, statement: "SELECT persistence_id FROM {table}", expect: some, after: [delete]}}
"""


@pytest.mark.long
@pytest.mark.usefixtures("unlimited")
def test_event_groups_with_many_rows_keep_and_write_and_restore_them_at_the_rate(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [{"persistence_id": f"id {number}"} for number in range(30)]
    journal.insert("all_persistence_ids", ids)
    before = journal.rows("all_persistence_ids")
    file = tmp_path / "group.yaml"
    file.write_text(GROUP.format(table=f"{journal.keyspace}.all_persistence_ids"))
    limited(journal, "run_event_groups", "submit", str(file))
    plans: list[str] = []
    paced = connector._paced

    def and_tell(rows: DataFrame) -> DataFrame:
        made = paced(rows)
        plans.append(gateway.executed_plan(made))
        return made

    monkeypatch.setattr(connector, "_paced", and_tell)
    assert journal.run("run_event_groups", WRITE_RATE=str(RATE)).status == 3
    assert journal.rows("all_persistence_ids") == before
    # The rows that were found, those before the event, the deletes, and what is put back.
    assert len(plans) == 4
    assert all("java_method(java.lang.Thread, sleep" in plan for plan in plans)
