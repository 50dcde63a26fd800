"""An export into an Iceberg table, killed after each of its writes, or suspended before one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import duckdb_reader
from tests.faults.fencing import CHECK, is_checked_before_each, traced
from tests.faults.killing import expire_locks, kill_after, suspend_before, wake
from tests.faults.sample import sampled
from tests.faults.seams import Seam
from tests.integration.project.projections import START, Projections, event
from tests.integration.project.test_iceberg import EVENTS, LAKE, POLICY, export, exported
from tests.integration.support import Journal, Result
from tidemark.purge import iceberg_snapshots

WRITES = (
    Seam.ICEBERG_TABLE_PREPARED,
    Seam.ICEBERG_BATCH_BEGUN,
    Seam.ICEBERG_BATCH_WRITTEN,
    Seam.ICEBERG_BATCH_PUBLISHED,
)
PURGES = (Seam.ICEBERG_SNAPSHOTS_EXPIRED, Seam.ICEBERG_ORPHANS_REMOVED)
LATE = event("a|3", 1, 0.5, "red", kind="late", amount=3)
LATER = event("a|4", 1, 0.6, "red", kind="later", amount=4)


@pytest.fixture
def projections(make_journal: Callable[..., Journal], tmp_path: Path) -> Projections:
    """Return the projection of an Iceberg table, with events to export."""
    journal = make_journal(EXPORT_DIR=str(tmp_path / "lake"), PROJECTIONS_DIR=str(tmp_path))
    made = Projections(journal, tmp_path)
    made.define(LAKE)
    made.insert(*EVENTS)
    made.validated(0, 1)
    return made


def window() -> tuple[str, ...]:
    end = START.replace(hour=2)
    return ("--window-start", START.isoformat(), "--window-end", end.isoformat(), "--force")


def test_before_each_write_it_asks_whether_it_still_holds_its_locks(
    projections: Projections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = traced(monkeypatch, WRITES)
    assert export(projections, tmp_path).status == 0
    assert [step for step in dict.fromkeys(trace) if step != CHECK] == list(WRITES)
    assert is_checked_before_each(trace), trace


@pytest.mark.parametrize(
    ("application", "seam"),
    sampled([("project", seam) for seam in WRITES], {("project", Seam.ICEBERG_BATCH_WRITTEN)}),
)
def test_killed_after_a_write_and_run_again(
    projections: Projections, tmp_path: Path, application: str, seam: Seam
) -> None:
    is_first = seam is Seam.ICEBERG_TABLE_PREPARED
    if not is_first:
        assert export(projections, tmp_path).status == 0
    before = [] if is_first else exported(tmp_path)
    projections.insert(LATE)
    kill_after(projections.journal, seam, application, *window())
    wanted = sorted([*before, (LATE.time_bucket, "a|3", 1, "late", 3)])
    seen = exported(tmp_path)
    # All time buckets at once, and only at the end.
    assert seen == (wanted if seam is Seam.ICEBERG_BATCH_PUBLISHED else before)
    again = export(projections, tmp_path)
    assert again.status == 0, again.stderr
    assert len(exported(tmp_path)) == 4
    assert exported(tmp_path) == wanted or is_first


def test_a_run_that_was_suspended_beyond_its_lock_publishes_nothing(
    projections: Projections, tmp_path: Path
) -> None:
    assert export(projections, tmp_path).status == 0
    projections.insert(LATE)
    asleep = suspend_before(projections.journal, Seam.ICEBERG_BATCH_PUBLISHED, "project", *window())
    try:
        expire_locks(projections.journal)
        projections.insert(LATER)
        heir = export(projections, tmp_path, "--force")
        assert heir.status == 0, heir.stderr
        rows = exported(tmp_path)
        assert len(rows) == 5
    finally:
        stderr = wake(asleep)
    assert asleep.returncode == 1, stderr
    assert exported(tmp_path) == rows


def test_purge_asks_for_its_locks_and_goes_on_where_it_has_died(
    projections: Projections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        assert export(projections, tmp_path, "--force").status == 0
    rows, data = exported(tmp_path), tmp_path / "lake/all/events/data"
    orphan = data / "orphan.parquet"
    orphan.write_bytes(b"of a killed run")
    policies = tmp_path / "retention.yaml"
    policies.write_text(POLICY)
    needed = {file.name for file in data.rglob("*.parquet")} - {orphan.name}
    # Seven days later, as far as the policy is concerned.
    later = int(time.time() * 1000) + 60_000
    monkeypatch.setattr(iceberg_snapshots, "to_millis", lambda moment: later)
    trace = traced(monkeypatch, PURGES)

    def purge() -> Result:
        return projections.journal.run("purge", "--apply", RETENTION_FILE=str(policies))

    owner, name = Seam.ICEBERG_ORPHANS_REMOVED.place()
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, died)
        assert purge().status == 1
    assert orphan.exists()
    assert exported(tmp_path) == rows
    assert purge().status == 0
    assert [step for step in dict.fromkeys(trace) if step != CHECK] == list(PURGES)
    assert is_checked_before_each(trace), trace
    assert exported(tmp_path) == rows
    left = {file.name for file in data.rglob("*.parquet")}
    assert left < needed
    snapshots = f"SELECT count(*) FROM iceberg_snapshots('{tmp_path / 'lake/all/events'}')"
    assert duckdb_reader.rows(tmp_path / "lake/all/events", snapshots) == [(1,)]


def died(*values: object) -> None:
    raise RuntimeError("killed")
