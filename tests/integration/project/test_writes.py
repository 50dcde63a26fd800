"""The writes of project, seen by a reader beside them, and after the loss of the lock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.seams import Seam
from tests.integration.project.projections import (
    FILES,
    LATEST,
    LATEST_TABLE,
    START_MS,
    TOTALS,
    TOTALS_TABLE,
    Projections,
    event,
)
from tests.integration.support import Journal
from tidemark.cassandra.control import Control, Row
from tidemark.cassandra.schema import table
from tidemark.ledger.locks import Locks

LOG = (
    LATEST.replace("latest", "log").replace("upsert", "append")
)  # fmt: skip
LOG_TABLE = """\
CREATE TABLE {keyspace}.log (persistence_id text, sequence_nr bigint, kind text, amount int,
    PRIMARY KEY (persistence_id, sequence_nr))"""
STEPS = (
    Seam.EVENTS_ACCEPTED,
    Seam.ORIGIN_NOTED,
    Seam.BUCKET_ROWS_WRITTEN,
    Seam.OLDER_ROWS_DELETED,
    Seam.NEWEST_WRITTEN,
    Seam.EVENTS_APPENDED,
    Seam.BATCH_EXPORTED,
    Seam.EXPORTED_BUCKET_REPLACED,
    Seam.OFFSETS_WRITTEN,
    Seam.CURSORS_WRITTEN,
    Seam.GAPS_REPLACED,
)
"""The steps of a run: reading, then the writes in their order, as far as a mode has them."""
TABLES = {"totals": TOTALS_TABLE, "latest": LATEST_TABLE, "log": LOG_TABLE, "files": None}


class Robbed:
    """A recorder of the steps of a run, which takes the run's lock away after a given step."""

    def __init__(self, patched: pytest.MonkeyPatch, after: int) -> None:
        self.done: list[Seam] = []
        self._after, self._locks = after, list[Locks]()
        enter = Locks.__enter__

        def entered(locks: Locks) -> Locks:
            self._locks.append(locks)
            return enter(locks)

        patched.setattr(Locks, "__enter__", entered)
        for seam in STEPS:
            owner, name = seam.place()
            patched.setattr(owner, name, self._recording(seam, getattr(owner, name)))

    def _recording(self, seam: Seam, step: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*arguments: Any, **options: Any) -> Any:
            self.done.append(seam)
            result = step(*arguments, **options)
            if len(self.done) == self._after:
                # The renewing thread does the same when the row has another owner.
                self._locks[-1]._lose("lost the lock to a robber")
            return result

        return recorded


@pytest.mark.parametrize(
    ("name", "sql", "is_all"),
    [
        ("totals", TOTALS, True),
        # The steps after the result are the same for all modes.
        pytest.param("files", FILES, True, marks=pytest.mark.long),
        ("latest", LATEST, False),
        pytest.param("log", LOG, False, marks=pytest.mark.long),
    ],
)
def test_nothing_is_written_after_the_lock_is_lost(
    projections: Projections,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    sql: str,
    is_all: bool,
) -> None:
    """The lock is lost after each step in turn; the next write, of any kind, is not done."""
    journal = projections.journal
    journal.environment = {**journal.environment, "TIDEMARK_EXPORT_DIR": str(tmp_path / "export")}
    projections.define(sql, TABLES[name])
    projections.validated(0)

    def run(number: int, after: int) -> list[Seam]:
        projections.insert(event("a|1", number, 0.1 + number / 100, "red", kind="in", amount=1))
        with monkeypatch.context() as patched:
            robbed = Robbed(patched, after)
            result = projections.run(0, 1, "--force")
        assert (result.status == 0) == (after == 0), result.stderr
        assert ("lost the lock to a robber" in result.stderr) == (after > 0)
        return robbed.done

    trace = run(1, after=0)
    assert trace[0] is Seam.EVENTS_ACCEPTED
    assert {Seam.OFFSETS_WRITTEN, Seam.CURSORS_WRITTEN} < set(trace)
    # The last step is followed by the ledger, which has a fence of its own.
    for number in range(1, len(trace) if is_all else 2):
        assert run(number + 1, after=number) == trace[:number]
        assert {state for _, _, state, _ in projections.states()} != {"done"}


def test_a_reader_beside_the_replacement_never_meets_a_hole(
    make_journal: Callable[..., Journal], tmp_path: Path
) -> None:
    """Both kinds are in every version of the bucket, so every read must return both."""
    projections = Projections(make_journal(), tmp_path)
    journal = projections.journal
    projections.define(TOTALS, TOTALS_TABLE)
    projections.insert(
        event("a|1", 1, 0.1, "red", kind="in", amount=1),
        event("a|2", 1, 0.2, "red", kind="out", amount=1),
    )
    projections.validated(0)
    assert projections.run(0, 1).status == 0
    over, looks = threading.Event(), list[tuple[str, ...]]()

    def look() -> None:
        cql = f"SELECT kind, n FROM {table(journal.keyspace, 'totals')} WHERE time_bucket = ?"
        with Control(journal.settings()) as control:
            while not over.is_set():
                rows: list[Row] = control.execute(cql, (START_MS,))
                looks.append(tuple(row["kind"] for row in rows))

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for number in (2, 3):
            projections.insert(event("a|1", number, 0.3, "red", kind="in", amount=1))
            before = len(looks)
            assert projections.run(0, 1, "--force").status == 0
            assert len(looks) > before
    finally:
        over.set()
        reader.join()
    assert set(looks) == {("in", "out")}
    assert [row["n"] for row in journal.rows("totals")] == [3, 1]
