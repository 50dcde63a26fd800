"""A fold into PostgreSQL, whose sums would count an event twice, killed or suspended in a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded.postgres.server import PostgresEndpoint
from tests.faults.killing import expire_locks, kill_after, suspend_before, wake
from tests.faults.sample import sampled
from tests.faults.seams import Seam
from tests.integration.postgres.databases import Database, new_schema
from tests.integration.postgres.read_models import READ_MODELS, make_tables, rows_in
from tests.integration.project.projections import START, Projections, event
from tests.integration.support import Journal

STEPS = (
    Seam.POSTGRES_ROWS_SENT,
    Seam.POSTGRES_FENCE_HELD,
    Seam.POSTGRES_OFFSETS_MERGED,
    Seam.POSTGRES_COMMITTED,
    Seam.CURSORS_WRITTEN,
)
AFTER_COMMIT = {Seam.POSTGRES_COMMITTED, Seam.CURSORS_WRITTEN}
FIRST = (
    event("a|1", 1, 0.1, kind="in", amount=1),
    event("a|1", 2, 0.2, kind="in", amount=10),
    event("a|2", 1, 0.3, kind="in", amount=100),
    # The function fails without an amount, so this event is quarantined.
    event("a|4", 1, 0.4, kind="in"),
)
NEXT = (
    event("a|1", 3, 1.1, kind="in", amount=1000),
    event("a|3", 1, 1.2, kind="in", amount=7),
)
LAST = event("a|1", 4, 2.1, kind="in", amount=10_000)
BEFORE, AFTER = {"a|1": 11, "a|2": 100}, {"a|1": 1011, "a|2": 100, "a|3": 7}


@pytest.fixture
def database(postgres: PostgresEndpoint) -> Iterator[Database]:
    with new_schema(postgres) as made:
        yield made


@pytest.fixture
def projections(
    make_journal: Callable[..., Journal],
    tmp_path: Path,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> Projections:
    """Return a fold that has processed its first time bucket, and has events in the second one."""
    for name, value in database.endpoint.environment().items():
        monkeypatch.setenv(name, value)
    made = Projections(make_journal(PROJECTIONS_DIR=str(tmp_path)), tmp_path)
    model = READ_MODELS["fold"]
    make_tables(model, database, made)
    sql = model.of_postgres(database).replace("event=", 'on_error="skip",\n    event=', 1)
    made.define(sql, file=model.file)
    made.insert(*FIRST)
    made.validated(0)
    first = made.run(0, 1)
    assert first.status == 0, first.stderr
    made.insert(*NEXT)
    made.validated(1)
    assert balances(database) == BEFORE
    return made


def balances(database: Database) -> dict[Any, Any]:
    return {row[0]: row[2] for row in rows_in(database, "balances")}


def staging_tables(database: Database) -> list[Any]:
    query = (
        "SELECT table_name FROM information_schema.tables"
        " WHERE table_schema = current_schema() AND table_name LIKE 'tidemark_staging%'"
    )
    return [name for (name,) in database.rows(query)]


def window(first: int, end: int) -> tuple[str, ...]:
    bounds = [START.replace(hour=hour).isoformat() for hour in (first, end)]
    return ("--window-start", bounds[0], "--window-end", bounds[1])


@pytest.mark.parametrize(
    ("application", "seam"),
    sampled(
        [("project", seam) for seam in STEPS],
        {("project", Seam.POSTGRES_OFFSETS_MERGED), ("project", Seam.POSTGRES_COMMITTED)},
    ),
)
def test_killed_in_a_batch_and_run_again(
    projections: Projections, database: Database, application: str, seam: Seam
) -> None:
    kill_after(projections.journal, seam, application, *window(1, 2))
    assert balances(database) == (AFTER if seam in AFTER_COMMIT else BEFORE)
    again = projections.run(1, 2)
    assert again.status == 0, again.stderr
    assert balances(database) == AFTER
    assert staging_tables(database) == []
    projections.insert(LAST)
    projections.validated(2)
    assert projections.run(2, 3).status == 0
    assert balances(database) == {**AFTER, "a|1": 11_011}


def test_a_run_that_was_suspended_beyond_its_lock_commits_nothing(
    projections: Projections, database: Database
) -> None:
    asleep = suspend_before(projections.journal, Seam.POSTGRES_FENCE_HELD, "project", *window(1, 2))
    try:
        expire_locks(projections.journal)
        heir = projections.run(1, 2)
        assert heir.status == 0, heir.stderr
        assert balances(database) == AFTER
    finally:
        stderr = wake(asleep)
    assert asleep.returncode == 1, stderr
    assert balances(database) == AFTER


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (("quarantine", "retry", "balances"), {"events_retried": 1}),
        (("clear", "balances"), {"offsets_forgotten": 3}),
    ],
    ids=["retry", "clear"],
)
def test_a_run_that_was_suspended_commits_nothing_after_states_were_voided(
    projections: Projections, database: Database, change: tuple[str, ...], counts: dict[str, int]
) -> None:
    """Its states follow from those that were voided, and its offsets would leave out events."""
    asleep = suspend_before(projections.journal, Seam.POSTGRES_FENCE_HELD, "project", *window(1, 2))
    try:
        expire_locks(projections.journal)
        changed = projections.manage(*change, "--apply")
        assert changed.status == 0, changed.stderr
        assert changed.report["counts"].items() >= counts.items()
    finally:
        stderr = wake(asleep)
    assert asleep.returncode == 1, stderr
    assert balances(database) == BEFORE
    again = projections.run(0, 2)
    assert again.status == 0, again.stderr
    assert balances(database) == AFTER


def test_a_connection_that_is_lost_in_commit_is_asked_again(
    projections: Projections, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends the session after it has committed; the client reads no answer."""
    owner, name = Seam.POSTGRES_COMMITTED.place()
    commit = getattr(owner, name)
    lost = []

    def committed_unheard(transaction: Any, is_committed: Any) -> None:
        session = transaction._session
        pid = session.info.backend_pid
        session.execute("COMMIT")
        lost.append(pid)
        with database.session() as other:
            other.execute("SELECT pg_terminate_backend(%s)", [pid])
        commit(transaction, is_committed)

    monkeypatch.setattr(owner, name, committed_unheard)
    result = projections.run(1, 2)
    assert result.status == 0, result.stderr
    assert lost
    assert balances(database) == AFTER
