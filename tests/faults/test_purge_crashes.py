"""purge by policies, killed with SIGKILL after each kind of write, then run again.

One file of policies has every target whose pieces are in `policy_piece` and that no command of
cleanup shares. After the kill nothing that is half-deleted reads as whole; after the second run the
tables are those of an undisturbed run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.faults.fencing import CHECK, Step, is_checked_before_each, traced
from tests.faults.killing import kill_after
from tests.faults.sample import sampled
from tests.faults.seams import Seam
from tests.integration.purge.test_expiry_through_kafka import Tenant
from tests.integration.purge.test_own_tables import put
from tests.integration.replicate.kafka_reader import Reader
from tests.integration.support import Journal
from tidemark.cassandra.schema import SCHEMA_DIR, create_tables

POLICIES = """\
policies:
  - {name: bad, target: quarantine, keep-days: 90}
  - {name: found, target: findings, keep-days: 90}
  - {name: pieces, target: ledger, keep-days: 90}
  - {name: tails, target: tails, keep-days: 90}
"""
WRITES = (
    Seam.OWN_ROWS_DELETED,
    Seam.LEDGER_ROWS_DELETED,
    Seam.ROWS_OF_IDS_DELETED,
)
PIECES = (Seam.POLICY_STARTED, Seam.POLICY_FINISHED)
"""Writes that their attempt guards, and no lock."""
OWN = ("quarantine", "finding", "validate_tail", "tag_write_tail", "piece")
OF_A_RUN = ("run_id", "owner", "started_at", "finished_at")
HOUR = 3_600_000
State = dict[str, list[Any]]


def prepare(make: Callable[..., Journal], directory: Path) -> Journal:
    """Return a journal with something to delete for each policy, and something beside it."""
    file = directory / "retention.yaml"
    file.write_text(POLICIES)
    journal = make(
        LOCK_TTL="5",
        PROJECTIONS_DIR=str(directory),
        RETENTION_FILE=str(file),
    )
    snapshots = {"TIDEMARK_SNAPSHOT_KEYSPACE": journal.keyspace}
    journal.environment = {**journal.environment, **snapshots}
    create_tables(journal.control, SCHEMA_DIR / "pekko_snapshot.cql", journal.keyspace)
    fill_own_tables(journal)
    return journal


def fill_own_tables(journal: Journal) -> None:
    now = datetime.now(UTC)
    old = now - timedelta(days=100)
    of_journal = {"journal_keyspace": journal.keyspace}
    of_id = {"persistence_id": "p", "sequence_nr": 1}
    event = {**of_id, "timestamp": UUID(int=1 << 76)}
    key = {**of_journal, **event, "check_name": "c", "tag": "", "number": 1, "row_time_bucket": 0}
    for name, at in (("old", old), ("young", now)):
        is_old = name == "old"
        put(journal, "quarantine", {**event, "source": name, "application": "x", "found_at": at})
        finding = {"time_bucket": int(is_old), "state": "settled" if is_old else "open"}
        put(journal, "finding", {**key, **finding, "last_seen": at})
        tail = {**of_journal, "persistence_id": name, "sequence_nr": 1}
        put(journal, "validate_tail", {**tail, "tag": "red"}, at)
        put(journal, "tag_write_tail", tail, at)
    ledger = {"application": "validate", "subject": journal.keyspace, "bucket_size": "Hour"}
    done = {"state": "done", "attempt": 1, "definition_version": "", "finished_at": old}
    for number in range(4):
        put(journal, "piece", {**ledger, **done, "time_bucket": number * HOUR})
    ended = int(old.timestamp() * 1000)
    spans = [(0, 3 * HOUR, "", 1, ended, ended, False)]
    put(journal, "piece", {**ledger, "revision": UUID(int=1), "done_spans": spans})


def state(journal: Journal) -> State:
    """Return everything that the policies may change, without names of the run."""
    tables: State = {}
    for name in (*OWN, "policy_piece"):
        tables[name] = [
            {
                column: value
                for column, value in row.items()
                if column not in (*OF_A_RUN, "last_seen", "found_at", "revision", "counts")
                and value != journal.keyspace
                and not (name == "policy_piece" and column == "attempt")
                and column != "done_spans"
            }
            for row in sorted(journal.own_rows(name), key=str)
        ]
    return tables


def operations(journal: Journal) -> list[str]:
    rows = sorted(journal.own_rows("audit"), key=lambda row: row["at"].time)
    return [row["operation"] for row in rows]


@dataclass(frozen=True)
class Undisturbed:
    """The tables after an undisturbed run, and its writes in their order."""

    state: State
    trace: list[Step]


@pytest.fixture(scope="module")
def undisturbed(
    make_journals: Callable[..., Journal], tmp_path_factory: pytest.TempPathFactory
) -> Undisturbed:
    journal = prepare(make_journals, tmp_path_factory.mktemp("projections"))
    before = state(journal)
    with pytest.MonkeyPatch.context() as patched:
        trace = traced(patched, WRITES)
        result = journal.run("purge", "--apply")
    assert result.status == 0, result.stderr
    after = state(journal)
    assert [name for name in after if after[name] == before[name]] == [], result.stdout
    return Undisturbed(after, trace)


def test_before_each_write_it_asks_whether_it_still_holds_its_locks(
    undisturbed: Undisturbed,
) -> None:
    steps = [step for step in dict.fromkeys(undisturbed.trace) if step != CHECK]
    assert steps == list(WRITES)
    assert is_checked_before_each(undisturbed.trace), undisturbed.trace


@pytest.mark.parametrize(
    ("name", "boundary"),
    sampled(
        [("purge", where) for where in (*PIECES, *WRITES)],
        set(),
    ),
)
def test_killed_after_a_write_and_run_again(
    make_journal: Callable[..., Journal],
    undisturbed: Undisturbed,
    tmp_path: Path,
    name: str,
    boundary: Seam,
) -> None:
    killed = prepare(make_journal, tmp_path)
    kill_after(killed, boundary, name, "--apply")
    # What was begun and did not come to its end is in the audit and in the ledger.
    assert operations(killed) == ["purge started"]
    if boundary is not Seam.POLICY_FINISHED:
        assert "running" in {row["state"] for row in killed.own_rows("policy_piece")}

    again = killed.run(name, "--apply")
    assert again.status == 0, again.stderr
    assert state(killed) == undisturbed.state
    assert operations(killed) == ["purge started", "purge started", "purge"]
    assert {row["state"] for row in killed.own_rows("policy_piece")} == {"done"}
    assert killed.own_rows("lock") == []
    assert killed.run(name, "--apply").report["state"] == "nothing-to-do"


@pytest.mark.long
def test_a_purge_of_expired_journals_killed_after_its_records_sends_none_again(
    make_journal: Callable[..., Journal], kafka: str, tmp_path: Path
) -> None:
    tenant = Tenant(make_journal(LOCK_TTL="5"), kafka, tmp_path)
    for key in ("a", "b"):
        tenant.topic.append(key, [1, 2], expire_after="1 day")
    tenant.replicate()
    for key in ("a", "b"):
        tenant.expire(key)
    kill_after(tenant.journal, Seam.PURGES_SENT, "purge", "--apply")
    assert len(tenant.sent()) == 2
    assert operations(tenant.journal) == ["purge started"]
    assert tenant.purged() == 0
    assert len(tenant.sent()) == 2
    tenant.topic.append("a", [1])
    tenant.replicate()
    reader = Reader(tenant.journal, tenant.topic)
    assert [reader.read(key, 0) for key in ("a", "b")] == [[1], []]
    tenant.verify()
