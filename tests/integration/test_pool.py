"""The pool of journals: changes by a test do not reach the next test with the same journal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.pool import Pool, shape
from tests.integration.support import Journal
from tidemark.cassandra.schema import SCHEMA_DIR, schema_statements

WINDOW = ("--window-start", "2024-03-01T00:00:00Z", "--window-end", "2024-03-01T01:00:00Z")
APPLICATIONS = {
    "tag_write": WINDOW,
    "validate": WINDOW,
    "project": WINDOW,
    "purge": WINDOW,
    "reconcile": ("check",),
}


def test_journal_comes_back_without_rows_deletions_and_added_tables(pool: Pool) -> None:
    used = pool.take()
    row = f"{used.journal}.metadata (persistence_id, deleted_to) VALUES ('a', 1)"
    pool.control.execute(f"INSERT INTO {row}")
    pool.control.execute(f"DELETE FROM {used.journal}.metadata WHERE persistence_id = 'a'")
    pool.control.execute(f"INSERT INTO {used.own}.lock (resource) VALUES ('a')")
    pool.control.execute_ddl(f"CREATE TABLE {used.journal}.target (a int PRIMARY KEY)")
    pool.give_back(used)

    assert pool.take() == used
    assert shape(pool.control, used.journal, used.own) == used.made
    assert pool.control.execute(f"SELECT * FROM {used.own}.lock") == []
    pool.control.execute(f"INSERT INTO {row} USING TIMESTAMP 1")
    assert len(pool.control.execute(f"SELECT * FROM {used.journal}.metadata")) == 1
    pool.give_back(used)


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE {}.metadata",
        "ALTER TABLE {}.messages DROP tags",
        "ALTER TABLE {}.messages ADD note text",
        "ALTER TABLE {}.tag_views WITH default_time_to_live = 60",
        "CREATE INDEX ON {}.messages (writer_uuid)",
        "DROP KEYSPACE {}",
    ],
)
def test_journal_with_a_changed_schema_is_dropped(pool: Pool, change: str) -> None:
    used = pool.take()
    pool.control.execute_ddl(change.format(used.journal))
    pool.give_back(used)
    assert not pool.control.has_keyspace(used.journal)
    assert not pool.control.has_keyspace(used.own)


@pytest.mark.parametrize(
    "application",
    [
        "tag_write",
        *(pytest.param(one, marks=pytest.mark.long) for one in APPLICATIONS if one != "tag_write"),
    ],
)
def test_first_run_of_an_application_makes_all_tables(
    make_journal: Callable[..., Journal], application: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Other tests find the tables made."""
    journal = make_journal(own_tables=False, PROJECTIONS_DIR=str(tmp_path_factory.mktemp("none")))
    result = journal.run(application, *APPLICATIONS[application])
    assert result.status == 0, result.stderr
    made = shape(journal.control, journal.own_keyspace)
    statements = schema_statements(SCHEMA_DIR / "tidemark.cql", journal.own_keyspace)
    assert len(made["tables"]) == len(statements)
