"""Data centres: unknown ones, levels that hold in one only, and runs in another one."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from embedded.cassandra.ring import Ring
from embedded.cassandra.server import Endpoint
from tests.faults.crash import end
from tests.integration.support import Journal, Result, control_of
from tests.integration.tag_write.test_tag_write import a_small_journal, window
from tidemark.cassandra import cluster, control
from tidemark.cassandra.schema import SCHEMA_DIR, create_keyspace, create_tables

pytestmark = pytest.mark.long

LOCAL = {"CASSANDRA_CONSISTENCY": "LOCAL_QUORUM", "CASSANDRA_SERIAL_CONSISTENCY": "LOCAL_SERIAL"}
ONE, TWO = {"CASSANDRA_LOCAL_DC": "dc1"}, {"CASSANDRA_LOCAL_DC": "dc2"}
BOTH = {"class": "NetworkTopologyStrategy", "dc1": "1", "dc2": "1"}
OWN = "datacenter1"
"""The only data centre of the tests' Cassandra."""


@pytest.fixture(autouse=True)
def _forget(spark: SparkSession) -> Iterator[None]:
    """Let the session that all tests share forget of the data centre."""
    yield
    spark.conf.unset("spark.cassandra.connection.localDC")


def only_line(result: Result, status: int = 2) -> str:
    assert result.status == status, result.stderr
    [line] = result.error_lines
    return line


def test_data_center_that_there_is_not(journal: Journal) -> None:
    line = only_line(journal.run("tag_write", *window(0, 1), CASSANDRA_LOCAL_DC="dc9"))
    assert "there is no data centre 'dc9'; there are datacenter1 (TIDEMARK_CASSANDRA_LOCAL_DC)" in (
        line
    )


def test_levels_of_the_only_data_center_need_no_name(journal: Journal) -> None:
    journal.insert("messages", a_small_journal())
    assert journal.run("tag_write", *window(0, 1), **LOCAL).status == 0
    assert journal.run("tag_write", *window(1, 2)).status == 0
    named = journal.run("tag_write", *window(2, 3), CASSANDRA_LOCAL_DC=OWN, **LOCAL)
    assert named.status == 0, named.stderr
    assert journal.own_rows("data_center") == []


@pytest.fixture
def _two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tests' Cassandra tell of a second data centre."""
    for module in (cluster, control):
        monkeypatch.setattr(module, "data_centers", lambda _: [OWN, "elsewhere"])


@pytest.mark.usefixtures("_two")
@pytest.mark.parametrize("level", LOCAL)
def test_levels_of_a_data_center_that_nobody_has_named(journal: Journal, level: str) -> None:
    line = only_line(journal.run("tag_write", *window(0, 1), **{level: LOCAL[level]}))
    assert f"{LOCAL[level]} holds in one data centre, and the cluster has {OWN}, elsewhere" in line


@pytest.mark.usefixtures("_two")
@pytest.mark.parametrize("level", LOCAL)
def test_levels_that_need_not_meet_those_of_earlier_runs(journal: Journal, level: str) -> None:
    """The ledger keeps to the first; what is of all data centres may be read at ALL as well."""
    journal.insert("messages", a_small_journal())
    local = {level: LOCAL[level], "CASSANDRA_LOCAL_DC": OWN}
    assert journal.run("tag_write", *window(0, 1), **local).status == 0
    line = only_line(journal.run("tag_write", *window(1, 2)))
    assert (
        f"the ledger is written at levels of data centre {OWN}, and the settings are of all data"
        " centres: a run could miss what the last one wrote"
    ) in line
    assert journal.run("tag_write", *window(1, 2), **local).status == 0
    journal.control.execute(f"TRUNCATE {journal.own_keyspace}.data_center")
    assert journal.run("tag_write", *window(2, 3), CASSANDRA_CONSISTENCY="ALL").status == 0
    assert "of all data centres, and the settings are of data centre" in only_line(
        journal.run("tag_write", *window(3, 4), **local)
    )
    assert journal.run("tag_write", *window(3, 4), CASSANDRA_LOCAL_DC=OWN).status == 0


@pytest.fixture(scope="module")
def cluster_of_two(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Endpoint, Endpoint, Ring]]:
    """Yield the nodes of data centres dc1 and dc2, and the ring that they are."""
    ring = Ring(tmp_path_factory.mktemp("two"), {"one": "dc1", "two": "dc2"})
    try:
        found = ring.start()
        yield found["one"], found["two"], ring
    finally:
        ring.stop()


@pytest.fixture(scope="module")
def of_two(
    cluster_of_two: tuple[Endpoint, Endpoint, Ring], spark_environment: dict[str, str]
) -> Iterator[Journal]:
    """Yield a journal with a replica in each of the two data centres."""
    first, _, _ = cluster_of_two
    with control_of(first) as session:
        create_keyspace(session, "pekko", BOTH)
        create_tables(session, SCHEMA_DIR / "pekko.cql", "pekko")
        environment = {**spark_environment, **first.environment()}
        journal = Journal.over(
            session, environment, "pekko", "tidemark", REPLICATION=json.dumps(BOTH)
        )
        journal.insert("messages", a_small_journal())
        yield journal


def test_two_data_centers(cluster_of_two: tuple[Endpoint, Endpoint, Ring], of_two: Journal) -> None:
    _, second, ring = cluster_of_two

    def run(hour: int, **variables: str) -> Result:
        return of_two.run("tag_write", *window(hour, hour + 1), **variables)

    assert "there is no data centre 'dc9'; there are dc1, dc2" in (
        only_line(run(0, CASSANDRA_LOCAL_DC="dc9"))
    )
    assert "LOCAL_QUORUM holds in one data centre, and the cluster has dc1, dc2" in (
        only_line(run(0, **LOCAL))
    )
    # The only contact point is in dc1.
    done = run(0, **TWO, **LOCAL)
    assert done.status == 0, done.stderr
    with control_of(second) as session:
        clients = session.execute("SELECT driver_name FROM system_views.clients")
    assert any("Java Driver" in (client["driver_name"] or "") for client in clients)
    assert "the ledger is written at levels of data centre dc2, and the settings are of data" in (
        only_line(run(1, **ONE, **LOCAL))
    )
    assert "and the settings are of all data centres" in only_line(run(1))
    done = run(1, **TWO, **LOCAL)
    assert done.status == 0, done.stderr

    end(ring.process("two"))
    unreachable = only_line(run(2, **ONE, **LOCAL), status=1)
    assert "needs 2 replicas, 1 are alive" in unreachable
