"""Wrong input to every application: one clear line, a failing exit status, nothing changed."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from itertools import product

import pytest

from tests.integration.pekko_journals import delete_messages, write_as_pekko
from tests.integration.support import Journal
from tests.integration.tag_write.test_tag_write import message
from tidemark.cassandra.control import Row
from tidemark.cassandra.schema import table

APPLICATIONS = ("tag_write", "validate", "project", "purge")
GOOD = ("--window-start", "2024-03-01T00:00:00Z", "--window-end", "2024-03-01T01:00:00Z")
OF_PEKKO = {
    **dict.fromkeys(APPLICATIONS, GOOD),
    "reconcile": ("check", *GOOD),
    "cleanup": ("all-events", "--persistence-id", "a", "--apply"),
}
"""What applications do over a journal of Pekko, each with something to do."""
EVERY = {**OF_PEKKO, "replicate": (), "run_event_groups": ()}
WINDOWS = {
    "missing": ((), "no window (--window-start, --window-end)"),
    "half": (GOOD[:2], "no window"),
    "reversed": (
        ("--window-start", "2024-03-02", "--window-end", "2024-03-01"),
        "the window is empty or reversed: [2024-03-02T00:00:00Z, 2024-03-01T00:00:00Z)",
    ),
    "no time": (
        ("--window-start", "yesterday", "--window-end", "2024-03-01"),
        "not an ISO 8601 time: 'yesterday' (--window-start)",
    ),
    "a time without a zone": (
        ("--window-start", "2024-03-01T00:00:00", "--window-end", "2024-03-02"),
        "a time without a zone: '2024-03-01T00:00:00' (--window-start); write 2024-03-01T00:00:00Z",
    ),
    "not aligned": (
        ("--window-start", "2024-03-01T00:30:00Z", "--window-end", "2024-03-01T01:00:00Z"),
        "2024-03-01T00:30:00Z cuts a time bucket of bucket size Hour (--window-start)",
    ),
    "in the future": (
        ("--window-start", "2024-03-01", "--window-end", "2999-01-01"),
        "the window ends in the future: 2999-01-01T00:00:00Z",
    ),
}


@pytest.fixture(scope="module")
def journal(make_journals: Callable[..., Journal]) -> Journal:
    """Return a journal for all tests, which every refused run must leave unchanged.

    Every application has work in it: Pekko has tagged the events of some ids and not of others,
    and the first events of an id are deleted.
    """
    journal = make_journals(own_tables=False)
    tagged = [message(pid, number, number / 10, {"red"}) for pid in "ab" for number in (1, 2, 3)]
    write_as_pekko(journal, tagged)
    journal.insert("messages", [message("c", number, 0.5, {"red"}) for number in (1, 2)])
    delete_messages(journal, "b", to=2)
    return journal


@pytest.fixture(scope="module")
def before(journal: Journal) -> dict[str, list[Row]]:
    """Return the rows that must be in the journal all the time."""
    rows = contents(journal)
    assert all(rows.values())
    return rows


def contents(journal: Journal) -> dict[str, list[Row]]:
    """Return every table of the journal that an application could change."""
    names = ("messages", "metadata", "tag_views", "tag_write_progress", "tag_scanning")
    return {name: journal.rows(name) for name in names}


@pytest.fixture(autouse=True)
def _unchanged(journal: Journal, before: dict[str, list[Row]]) -> Iterator[None]:
    """Require that no test has left a trace."""
    yield
    assert contents(journal) == before
    assert not journal.control.has_keyspace(journal.own_keyspace)


def refused(journal: Journal, application: str, *options: str, **variables: str) -> str:
    """Run an application that must be refused, and return its only line."""
    result = journal.run(application, *options, **variables)
    assert result.status != 0
    assert result.report["state"] == "failed"
    [line] = result.error_lines
    assert "Traceback" not in result.stderr
    return line


@pytest.mark.parametrize(
    ("application", "case"),
    # purge without a window takes all time buckets past the retention
    [pair for pair in product(APPLICATIONS, WINDOWS) if pair != ("purge", "missing")],
)
def test_window(journal: Journal, application: str, case: str) -> None:
    options, expected = WINDOWS[case]
    assert expected in refused(journal, application, *options)


@pytest.mark.parametrize("application", EVERY)
def test_cassandra_unreachable(journal: Journal, application: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
        line = refused(journal, application, *EVERY[application], CASSANDRA_HOSTS=host)
    assert line.startswith(f"{application.replace('_', '-')}: error: cannot reach Cassandra")
    assert host in line


@pytest.mark.parametrize("application", EVERY)
def test_wrong_credentials(journal: Journal, application: str) -> None:
    line = refused(journal, application, *EVERY[application], CASSANDRA_PASSWORD="not-the-password")
    assert "Cassandra refuses user 'tidemark' with this password" in line
    assert "not-the-password" not in line


def test_wrong_credentials_are_not_tried_again(journal: Journal) -> None:
    assert journal.run("tag_write", *GOOD, CASSANDRA_PASSWORD="other").status == 2


@pytest.mark.parametrize("application", OF_PEKKO)
def test_keyspace_missing(journal: Journal, application: str) -> None:
    line = refused(
        journal, application, *OF_PEKKO[application], JOURNAL_KEYSPACE="no_such_keyspace"
    )
    assert "keyspace no_such_keyspace does not exist (TIDEMARK_JOURNAL_KEYSPACE)" in line


@pytest.mark.parametrize("application", EVERY)
def test_consistency_level_below_a_quorum(journal: Journal, application: str) -> None:
    """Below a quorum, old rows of locks, the ledger and fold states could be read."""
    line = refused(journal, application, *EVERY[application], CASSANDRA_CONSISTENCY="ONE")
    assert "TIDEMARK_CASSANDRA_CONSISTENCY: choose one of QUORUM, LOCAL_QUORUM" in line


@pytest.mark.parametrize("application", EVERY)
def test_host_that_nobody_knows(journal: Journal, application: str) -> None:
    line = refused(
        journal, application, *EVERY[application], CASSANDRA_HOSTS="no-such-host.invalid:9042"
    )
    assert "no such host (no-such-host.invalid:9042); check TIDEMARK_CASSANDRA_HOSTS" in line


def test_replication_that_the_cluster_cannot_reach(make_journal: Callable[..., Journal]) -> None:
    """Tidemark's own keyspace is made, but no row can be written in it."""
    factor = '{"class": "SimpleStrategy", "replication_factor": 3}'
    alone = make_journal(own_tables=False, REPLICATION=factor, CASSANDRA_CONSISTENCY="QUORUM")
    result = alone.run("tag_write", *GOOD)
    assert result.status == 1
    [line] = result.error_lines
    assert "consistency level QUORUM needs 2 replicas, 1 are alive" in line


@pytest.mark.parametrize("application", APPLICATIONS)
def test_table_missing_and_table_of_another_shape(
    make_journal: Callable[..., Journal], application: str
) -> None:
    journal = make_journal(own_tables=False)
    journal.control.execute_ddl(f"DROP TABLE {table(journal.keyspace, 'metadata')}")
    journal.control.execute_ddl(f"ALTER TABLE {table(journal.keyspace, 'messages')} DROP tags")
    result = journal.run(application, *GOOD)
    assert result.status == 3
    [line] = result.error_lines
    assert "table metadata does not exist" in line
    assert "messages has no column tags" in line
    assert not journal.control.has_keyspace(journal.own_keyspace)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"BUCKET_SIZE": "Week"}, "TIDEMARK_BUCKET_SIZE: unknown bucket size 'Week'"),
        ({"CASSANDRA_HOSTS": "localhost:x"}, "TIDEMARK_CASSANDRA_HOSTS: expected host:port"),
        ({"LOCK_TTL": "1"}, "TIDEMARK_LOCK_TTL: less than 5"),
        ({"LOCK_TTL": "soon"}, "TIDEMARK_LOCK_TTL: not a whole number"),
        ({"JOURNAL_KEYSPACE": "a; DROP"}, "TIDEMARK_JOURNAL_KEYSPACE: not a name"),
        ({"REPLICATION": "[1]"}, "TIDEMARK_REPLICATION: not a JSON object"),
        ({"CASSANDRA_CONSISTENCY": "MOST"}, "TIDEMARK_CASSANDRA_CONSISTENCY: choose one of"),
        ({"SPARK_UI": "yes"}, "TIDEMARK_SPARK_UI: choose one of 'on' or 'off'"),
    ],
)
def test_settings(journal: Journal, variables: Mapping[str, str], expected: str) -> None:
    assert expected in refused(journal, "tag_write", *GOOD, **variables)


def test_report_that_cannot_be_written_is_refused_before_the_work(journal: Journal) -> None:
    line = refused(journal, "tag_write", *GOOD, "--report", "/no/such/directory/report.json")
    assert line.count("the report cannot be written to /no/such/directory/report.json") == 1
    assert "No such file or directory (--report)" in line


def test_misspelt_setting_is_warned_of_with_the_nearest_name(journal: Journal) -> None:
    result = journal.run("tag_write", "--window-start", "now", BUCKETSIZE="Hour")
    assert result.status == 2
    warning = "TIDEMARK_BUCKETSIZE is no setting and does nothing; did you mean"
    assert f"tag-write: warning: {warning} TIDEMARK_BUCKET_SIZE?" in result.stderr


def test_new_size_that_is_none(journal: Journal) -> None:
    result = journal.run("reconcile", "rebucket", "--to", "Week")
    assert result.status == 2
    assert "unknown bucket size 'Week' (--to); choose one of Minute, Hour, Day" in result.stderr
