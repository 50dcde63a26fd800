"""Three nodes in two data centres: one dies, hangs, is cut off and comes back while runs write."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from embedded.cassandra.ring import Ring
from embedded.cassandra.server import Endpoint
from embedded.errors import EmbeddedError
from tests.cluster.accounts import WINDOW
from tests.cluster.read_models import READ_MODELS, define
from tests.faults.killing import start_until, suspend_before, wait_for_locks, wake
from tests.faults.sample import sampled
from tests.faults.seams import Seam
from tests.integration.flights import CHAIN, OFFSET_COLUMNS
from tests.integration.pool import unique_names
from tests.integration.project.projections import Projections
from tests.integration.proxies import Gate
from tests.integration.support import ROOT, Journal, control_of, wait_until
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import SCHEMA_DIR, create_keyspace, create_tables
from tidemark.errors import InvalidInput
from tidemark.ledger.piece import Piece, Reason, State
from tidemark.ledger.pieces import Pieces
from tidemark.partitioning.keys import BucketSize

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("spark")]
NODES = {"one": "dc1", "two": "dc1", "three": "dc2"}
DIES_AT = {
    "tag_write": (
        Seam.BUCKET_SIZE_RECORDED,
        Seam.TAG_VIEWS_WRITTEN,
        Seam.PROGRESS_WRITTEN,
        Seam.SCANNING_WRITTEN,
    ),
    "validate": (Seam.OLDER_FINDINGS_DELETED,),
    "project": (
        Seam.ORIGIN_NOTED,
        Seam.BUCKET_ROWS_WRITTEN,
        Seam.OLDER_ROWS_DELETED,
        Seam.OFFSETS_WRITTEN,
        Seam.CURSORS_WRITTEN,
    ),
}
CASES = sampled(
    [(name, seam) for name, seams in DIES_AT.items() for seam in seams],
    {("tag_write", Seam.TAG_VIEWS_WRITTEN), ("project", Seam.OFFSETS_WRITTEN)},
)
Tables = dict[str, list[str]]


@dataclass(frozen=True)
class Nodes:
    """The ring, where its nodes listen, and what stands between the third one and the others."""

    ring: Ring
    endpoints: dict[str, Endpoint]
    gate: Gate


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Yield three nodes, each with all of the data and of the users."""
    ring = Ring(tmp_path_factory.mktemp("ring"), NODES, behind={"three": "127.0.0.3"})
    port = ring.storage_port("three")
    gate = Gate(("127.0.0.3", port), ("127.0.0.1", port))
    gate.open()
    try:
        endpoints = ring.start()
        let_all_know_the_users(endpoints["one"], ring.replication())
        yield Nodes(ring, endpoints, gate)
    finally:
        ring.stop()
        gate.close()


def let_all_know_the_users(first: Endpoint, replication: Mapping[str, str]) -> None:
    """Give every node a replica of system_auth; reading all of them completes them."""
    replicas = ", ".join(f"'{name}': '{value}'" for name, value in replication.items())
    with control_of(first, cassandra_consistency="ALL") as control:
        control.execute_ddl(f"ALTER KEYSPACE system_auth WITH replication = {{{replicas}}}")

        def are_complete() -> bool:
            try:
                for name in ("roles", "role_members", "role_permissions"):
                    control.execute(f"SELECT * FROM system_auth.{name}")
            except InvalidInput:
                # Asked of a replica that has nothing yet, a node says that this user may not read.
                return False
            return True

        wait_until("the users to be known to all nodes", are_complete)


@pytest.fixture(scope="module")
def session(nodes: Nodes) -> Iterator[Control]:
    """Yield a session on the first node, which no test ends."""
    with control_of(nodes.endpoints["one"]) as session:
        yield session


def in_dc(data_center: str, nodes: Nodes) -> dict[str, str]:
    """Return the settings of runs that talk to the nodes of one data centre."""
    hosts = [nodes.endpoints[name] for name, place in NODES.items() if place == data_center]
    return {
        "CASSANDRA_HOSTS": ",".join(f"{host.host}:{host.port}" for host in hosts),
        "CASSANDRA_LOCAL_DC": data_center,
    }


@pytest.fixture(scope="module")
def make_projections(
    nodes: Nodes,
    session: Control,
    spark_environment: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], Projections]:
    """Return a maker of journals with the same events and projections."""
    replication = nodes.ring.replication()

    def make(name: str) -> Projections:
        keyspace, own = unique_names()
        create_keyspace(session, keyspace, replication)
        create_tables(session, SCHEMA_DIR / "pekko.cql", keyspace)
        directory = tmp_path_factory.mktemp(name) / "projections"
        journal = Journal.over(
            session,
            {**spark_environment, **nodes.endpoints["one"].environment()},
            keyspace,
            own,
            **in_dc("dc1", nodes),
            REPLICATION=json.dumps(replication),
            SPARK_MASTER="local[2]",
            SPARK_DRIVER_MEMORY="1g",
            PROJECTIONS_DIR=str(directory),
            DATA_DOCS_DIR=str(directory / "data_docs"),
            LOCK_TTL="30",
        )
        return define(journal, directory)

    return make


def state(journal: Journal) -> Tables:
    """Return all that the chain writes, without the names of runs and keyspaces, and times."""
    tables: Mapping[str, Sequence[object]] = {
        **journal.tag_tables(),
        **{name: journal.rows(name) for name in ("messages", *READ_MODELS)},
        "projection_offset": [
            [row[name] for name in OFFSET_COLUMNS] for row in journal.own_rows("projection_offset")
        ],
        "finding": list(journal.own_rows("finding")),
        "states": [row["state"] for row in journal.own_rows("piece")],
    }
    return {
        name: sorted(str(row).replace(journal.keyspace, "journal") for row in rows)
        for name, rows in tables.items()
    }


@pytest.fixture(scope="module")
def undisturbed(make_projections: Callable[[str], Projections]) -> Tables:
    """Return what the chain leaves while all nodes are there."""
    journal = make_projections("undisturbed").journal
    for application in CHAIN:
        result = journal.run(application, *WINDOW)
        assert result.status == 0, result.stderr
    return state(journal)


def alone(journal: Journal, application: str) -> None:
    result = journal.run_alone(application, *WINDOW)
    assert result.status == 0, result.stderr


def wait_until_the_third_node_has(all_of_it: Tables, journal: Journal, nodes: Nodes) -> None:
    """Wait until the replica of the third node alone has all rows of the journal."""
    three = {"cassandra_consistency": "LOCAL_ONE", "cassandra_local_dc": "dc2"}
    with control_of(nodes.endpoints["three"], **three) as its_own:
        replica = replace(journal, control=its_own)
        wait_until("the third node to have all", lambda: state(replica) == all_of_it)


@pytest.mark.parametrize(("application", "seam"), CASES)
def test_a_node_that_dies_and_comes_back_changes_no_row(
    nodes: Nodes,
    make_projections: Callable[[str], Projections],
    undisturbed: Tables,
    application: str,
    seam: Seam,
) -> None:
    journal = make_projections("disturbed").journal
    place = CHAIN.index(application)
    for name in CHAIN[:place]:
        alone(journal, name)
    victim = nodes.ring.process("three")
    try:
        process = start_until(journal, seam, application, *WINDOW, ends=victim.pid)
        _, stderr = process.communicate()
        assert process.returncode == 0, stderr
        with pytest.raises(EmbeddedError, match="three does not run"):
            nodes.ring.process("three")
    finally:
        nodes.ring.back("three")
    # What it has missed comes late, by hints and by reading.
    for name in CHAIN[place + 1 :]:
        alone(journal, name)
    assert state(journal) == undisturbed


def test_a_node_that_hangs_for_a_whole_run_changes_no_row(
    nodes: Nodes,
    make_projections: Callable[[str], Projections],
    undisturbed: Tables,
) -> None:
    """Its ports are open and nobody answers, as on a machine that swaps."""
    journal = make_projections("disturbed").journal
    hung = nodes.ring.process("two")
    process = journal.start(ROOT / "spark_apps" / "tag_write.py", *WINDOW)
    hung.suspend()
    try:
        _, stderr = process.communicate()
    finally:
        hung.resume()
    assert process.returncode == 0, stderr
    for name in CHAIN[1:]:
        alone(journal, name)
    assert state(journal) == undisturbed


def test_a_chain_over_a_slow_node_changes_no_row(
    nodes: Nodes, make_projections: Callable[[str], Projections], undisturbed: Tables
) -> None:
    """Whatever the node asks the others, their answers take half a second to it."""
    journal = make_projections("disturbed").journal
    nodes.gate.close()
    nodes.gate.open(delay=0.5)
    try:
        for application in CHAIN:
            result = journal.run_alone(application, *WINDOW, **in_dc("dc2", nodes))
            assert result.status == 0, result.stderr
    finally:
        nodes.gate.close()
        nodes.gate.open()
    assert state(journal) == undisturbed


def test_a_run_that_loses_the_majority_of_the_nodes_ends_with_one_line_and_can_be_repeated(
    nodes: Nodes,
    make_projections: Callable[[str], Projections],
    undisturbed: Tables,
) -> None:
    journal = make_projections("disturbed").journal
    process = suspend_before(journal, Seam.PROGRESS_WRITTEN, "tag_write", *WINDOW)
    away = [nodes.ring.process(name) for name in ("two", "three")]
    for node in away:
        node.suspend()
    try:
        stderr = wake(process)
    finally:
        for node in away:
            node.resume()
    assert process.returncode == 1, stderr
    [line] = [line for line in stderr.splitlines() if ": error: " in line]
    # Whichever fails first: a write, or the renewal of the lock.
    assert "Cassandra" in line or "a lock was lost" in line, line
    wait_for_locks(journal)
    for name in CHAIN:
        alone(journal, name)
    assert state(journal) == undisturbed


def test_of_two_sides_with_a_lock_each_the_one_with_the_majority_goes_on_and_takes_the_others_work(
    nodes: Nodes, make_projections: Callable[[str], Projections], undisturbed: Tables
) -> None:
    journal = make_projections("disturbed").journal
    alone(journal, "tag_write")
    alone(journal, "validate")

    def project(name: str, data_center: str) -> subprocess.Popen[str]:
        # Each begins while the other's lock is not renewed.
        settings = in_dc(data_center, nodes) | {"LOCK_TTL": "90"}
        arguments = ("--projection", name, *WINDOW)
        return suspend_before(journal, Seam.OFFSETS_WRITTEN, "project", *arguments, **settings)

    many, few = project("totals", "dc1"), project("latest", "dc2")
    nodes.gate.close()
    try:
        stderr = wake(many)
        assert many.returncode == 0, stderr
        stderr = wake(few)
        assert few.returncode == 1, stderr
        [line] = [line for line in stderr.splitlines() if ": error: " in line]
        assert "Cassandra" in line or "a lock was lost" in line, line
        wait_for_locks(journal)
        taken = journal.run_alone("project", "--projection", "latest", *WINDOW)
        assert taken.status == 0, taken.stderr
    finally:
        nodes.gate.open()
    alone(journal, "project")
    assert state(journal) == undisturbed


def test_writes_that_reach_a_node_late_change_no_row_that_was_rebuilt_meanwhile(
    nodes: Nodes, make_projections: Callable[[str], Projections], undisturbed: Tables
) -> None:
    journal = make_projections("disturbed").journal
    nodes.gate.close()
    try:
        alone(journal, "tag_write")
    finally:
        nodes.gate.open()
    rebuilt = journal.run_alone("reconcile", "rebuild", "--all", "--apply")
    assert rebuilt.status == 0, rebuilt.stderr
    alone(journal, "validate")
    alone(journal, "project")
    assert state(journal) == undisturbed
    wait_until_the_third_node_has(undisturbed, journal, nodes)


def test_a_node_that_missed_the_whole_chain_has_all_of_it_by_hints_alone(
    nodes: Nodes, make_projections: Callable[[str], Projections], undisturbed: Tables
) -> None:
    journal = make_projections("disturbed").journal
    nodes.gate.close()
    try:
        for application in CHAIN:
            alone(journal, application)
    finally:
        nodes.gate.open()
    # Nobody reads or writes any more but the node itself, of its own replica.
    wait_until_the_third_node_has(undisturbed, journal, nodes)


def test_a_column_that_is_added_in_the_middle_of_a_run_changes_no_row(
    make_projections: Callable[[str], Projections], undisturbed: Tables
) -> None:
    journal = make_projections("disturbed").journal
    process = suspend_before(journal, Seam.TAG_VIEWS_WRITTEN, "tag_write", *WINDOW)
    for name in ("messages", "tag_views", "latest"):
        journal.control.execute_ddl(f"ALTER TABLE {journal.keyspace}.{name} ADD added text")
    stderr = wake(process)
    assert process.returncode == 0, stderr
    for name in CHAIN[1:]:
        alone(journal, name)
    for name in ("messages", "tag_views", "latest"):
        journal.control.execute_ddl(f"ALTER TABLE {journal.keyspace}.{name} DROP added")
    assert state(journal) == undisturbed


@pytest.mark.soak
def test_a_year_of_minute_pieces_begins_and_ends_at_the_timeouts_that_cassandra_comes_with(
    session: Control, make_projections: Callable[[str], Projections]
) -> None:
    journal = make_projections("year").journal
    pieces = Pieces(session, journal.own_keyspace, "tag-write", journal.keyspace, BucketSize.MINUTE)
    year = [Piece(n * 60_000, Reason.NEW) for n in range(366 * 24 * 60)]
    started = pieces.start(year, owner="me", run_id="r")
    pieces.finish(started, State.DONE, owner="me", counts={})
    assert pieces.plan([piece.time_bucket for piece in year]) == []
