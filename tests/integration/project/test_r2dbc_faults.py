"""Runs over a journal in PostgreSQL whose server fails, and journals without events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from embedded.postgres.server import PostgresEndpoint
from tests.integration.postgres.r2dbc_journal import R2dbcEvent, R2dbcJournal, marker
from tests.integration.project.fold_books import fold
from tests.integration.project.projections import Projections
from tests.integration.project.test_r2dbc import (
    COUNTS,
    COUNTS_TABLE,
    HOUR,
    define,
    folded,
    move,
    run,
)
from tests.integration.support import Result


@contextmanager
def read_by(
    plugin: R2dbcJournal, endpoint: PostgresEndpoint, projections: Projections
) -> Iterator[str]:
    """Let the runs log in as a role that may read the journal, and nothing else; yield its name."""
    schema, role = plugin.database.schema, f"r_{plugin.database.schema}"
    execute = plugin.database.execute
    execute(f"CREATE ROLE {role} LOGIN PASSWORD 'weak'")
    execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")
    journal, before = projections.journal, projections.journal.environment
    url = f"postgresql://{role}@{endpoint.host}:{endpoint.port}/{endpoint.database}"
    login = {"TIDEMARK_POSTGRES_JOURNAL_URL": url, "TIDEMARK_POSTGRES_JOURNAL_PASSWORD": "weak"}
    journal.environment = {**before, **login}
    try:
        yield role
    finally:
        journal.environment = before
        execute(f"DROP OWNED BY {role}")
        execute(f"DROP ROLE {role}")


def one_line(result: Result) -> str:
    """Return the error of a failed run, which must be one line."""
    assert result.status != 0
    assert "Traceback" not in result.stderr
    assert len(result.error_lines) == 1, result.stderr
    return result.error_lines[0]


LOST = """\
CREATE SEQUENCE reads;
GRANT USAGE ON SEQUENCE reads TO {role};
CREATE FUNCTION lose() RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
BEGIN
    IF current_query() LIKE '{query}' AND nextval('{schema}.reads') = {nr} THEN
        PERFORM pg_terminate_backend(pg_backend_pid());
    END IF;
    RETURN true;
END $$;
ALTER TABLE event_journal ENABLE ROW LEVEL SECURITY;
CREATE POLICY lose ON event_journal FOR SELECT TO {role} USING (lose())"""
"""The server ends the session that reads the row with this number, counted over all sessions."""


@pytest.mark.parametrize(
    ("query", "nr"),
    [
        # By Spark's JDBC source, by a Python worker of Spark, and by the driver.
        ("%SPARK_GEN%", 4),
        ("%FETCH FORWARD%", 2),
        pytest.param("%SPARK_GEN%", 1, marks=pytest.mark.long),
        pytest.param("%RECURSIVE%", 3, marks=pytest.mark.long),
    ],
)
def test_a_connection_that_is_lost_while_rows_are_read(
    plugin: R2dbcJournal,
    projections: Projections,
    postgres: PostgresEndpoint,
    query: str,
    nr: int,
) -> None:
    define(projections)
    ids = [f"o|{number}" for number in range(6)]
    plugin.insert(*(move(pid, number, number) for pid in ids for number in (1, 2)))
    run(projections, 0, 1)
    before, offsets = folded(projections), projections.offsets()
    plugin.insert(*(move(pid, 3, HOUR - 700) for pid in ids))
    plugin.insert(*(move(pid, 4, HOUR + 5) for pid in ids))
    projections.validated(1)
    with read_by(plugin, postgres, projections) as role:
        schema = plugin.database.schema
        plugin.database.execute(LOST.format(role=role, schema=schema, query=query, nr=nr))
        failed = one_line(projections.run(1, 2))
    assert "terminating connection" in failed
    assert "run again" in failed
    assert (folded(projections), projections.offsets()) == (before, offsets)
    again = projections.run(1, 2)
    assert again.status == 0, again.stderr
    assert folded(projections) == {pid: [1, 2, 3, 4] for pid in ids}


def test_a_limit_of_the_server_on_statements(
    plugin: R2dbcJournal, projections: Projections, postgres: PostgresEndpoint
) -> None:
    define(projections)
    plugin.insert(move("o|1", 1, 1))
    projections.validated(0)
    with read_by(plugin, postgres, projections) as role:
        plugin.database.execute(SLOW.format(role=role))
        plugin.database.execute(f"ALTER ROLE {role} SET statement_timeout = '1s'")
        failed = one_line(projections.run(0, 1))
        assert "statement timeout" in failed
        assert "ALTER ROLE ... SET statement_timeout = 0" in failed
        plugin.database.execute(f"ALTER ROLE {role} SET statement_timeout = 0")
        again = projections.run(0, 1)
        assert again.status == 0, again.stderr
    assert folded(projections) == {"o|1": [1]}


SLOW = """\
CREATE FUNCTION wait() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_query() LIKE '%SPARK_GEN%' THEN
        PERFORM pg_sleep(2);
    END IF;
    RETURN true;
END $$;
ALTER TABLE event_journal ENABLE ROW LEVEL SECURITY;
CREATE POLICY wait ON event_journal FOR SELECT TO {role} USING (wait())"""


@pytest.mark.parametrize("rows", [(), (marker("o|1", 7, 1), marker("o|2", 3, HOUR + 1))])
def test_a_journal_without_events(
    plugin: R2dbcJournal, projections: Projections, rows: tuple[R2dbcEvent, ...]
) -> None:
    projections.define(COUNTS, COUNTS_TABLE)
    define(projections, fold(start="snapshot"))
    plugin.insert(*rows)
    window = ("--window-start", "2024-03-01T00:00:00Z", "--window-end", "2024-03-01T02:00:00Z")
    for options in (window, (*window, "--scope", "all")):
        checked = projections.journal.run("validate", *options)
        assert checked.status == 0, checked.stderr
    empty = projections.run(0, 2)
    assert empty.status == 0, empty.stderr
    assert (folded(projections), projections.offsets()) == ({}, {})
    # The next event follows the marker, and the snapshot that the events before it are in.
    if rows:
        plugin.insert_snapshot("o|1", 7, HOUR, b'{"kind": "in", "amount": 30}')
    plugin.insert(move("o|1", 8 if rows else 1, 2 * HOUR), move("Order|1", 1, 2 * HOUR))
    run(projections, 2, 3)
    assert folded(projections) == {"o|1": [-1, 7, 8] if rows else [1], "Order|1": [1]}


def test_without_look_back_the_next_event_shows_a_late_one(
    plugin: R2dbcJournal, projections: Projections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_R2DBC_LOOK_BACK", "0")
    define(projections)
    plugin.insert(move("o|1", 1, 1))
    run(projections, 0, 1)
    plugin.insert(move("o|1", 2, HOUR - 1), move("o|2", 1, HOUR - 1))
    run(projections, 1, 2)
    assert folded(projections) == {"o|1": [1]}
    plugin.insert(move("o|1", 3, 2 * HOUR), move("o|2", 2, 2 * HOUR))
    run(projections, 2, 3)
    assert folded(projections) == {"o|1": [1, 2, 3], "o|2": [1, 2]}
