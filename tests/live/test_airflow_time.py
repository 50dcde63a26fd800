"""Half an hour (LIVE_MINUTES) with the real plugin, reader and scheduler, and with failures."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import psutil
import pytest

from embedded.airflow import rest
from embedded.airflow.server import Airflow
from embedded.cassandra.server import Cassandra, Endpoint
from embedded.machine import processes
from embedded.spark import environment as embedded_spark
from tests.integration.support import Journal, wait_until
from tests.interop import build
from tests.interop.client import Client, plugin_settings
from tests.interop.support import QUICK, complete
from tests.live.chain import CHAIN
from tests.live.site import Site
from tidemark.cassandra.control import Control
from tidemark.errors import CassandraUnavailable
from tidemark.settings import Settings

MINUTES = float(os.environ.get("LIVE_MINUTES", "30"))
CADENCE = "five-minutes"
INTERVAL_S = 300
DEADLINE_S = 1200
IDS = tuple(f"{kind}|{number}" for kind in "abc" for number in range(5))
TAGS = (("red",), ("red", "blue"), ("blue",), ())
KEPT = 30
"""The messages that an actor keeps: more than it writes in the intervals the chain may lag."""


@pytest.mark.soak
def test_airflow_keeps_up_with_a_journal_that_lives(state: Path, tmp_path: Path) -> None:
    node = Cassandra(state / "live-cassandra")
    chosen = random.Random(15)
    try:
        with _site(node, state, tmp_path) as (site, airflow):
            events: list[tuple[float, Callable[[], object]]] = [
                (0.25, lambda: _stop_scheduler(state / "live-airflow")),
                (0.25 + 600 / (60 * MINUTES + 600), airflow.start),
                (0.60, lambda: _restart(node, site)),
                (0.75, _kill_an_application),
            ]
            began = time.monotonic()
            while (passed := (time.monotonic() - began) / (60 * MINUTES)) < 1:
                while events and events[0][0] <= passed:
                    events.pop(0)[1]()
                _act(site, chosen)
            _wait_until_done(site, airflow)
            site.require_equal_to_the_model()
    finally:
        Airflow(state / "live-airflow", {}).stop()
        node.stop()


@contextmanager
def _site(node: Cassandra, state: Path, directory: Path) -> Iterator[tuple[Site, Airflow]]:
    endpoint = node.start()
    environment = {**embedded_spark.environment(), **endpoint.environment()}
    log = state / "live-client.log"
    with (
        _control(endpoint) as control,
        Client.start(build.PEKKO.command(state), endpoint.environment(), log) as pekko,
    ):
        journal = Journal.create(
            control, environment, SPARK_MASTER="local[2]", BUCKET_SIZE="Minute", CADENCE=CADENCE
        )
        first = datetime.now(UTC) - timedelta(hours=1)
        opened = [
            pekko.open(plugin_settings(journal.keyspace, "Minute", first, **QUICK))
            for _ in ("writer", "reader")
        ]
        site = Site(journal, opened[0], opened[1], directory, tags_by_pekko=True)
        of_site = {f"TIDEMARK_{name}": value for name, value in site.settings().items()}
        airflow = Airflow(state / "live-airflow", {**journal.environment, **of_site})
        airflow.start()
        with airflow.client() as client:
            rest.wait_until("the DAGs to be parsed", 300, lambda: _known(client))
            for dag_id in CHAIN:
                rest.unpause(client, dag_id)
        yield site, airflow


def _known(client: httpx.Client) -> bool | None:
    dag_ids = {dag["dag_id"] for dag in rest.call(client, "GET", "dags")["dags"]}
    return dag_ids >= set(CHAIN) or None


def _control(endpoint: Endpoint) -> Control:
    return Control(
        Settings(
            cassandra_hosts=f"{endpoint.host}:{endpoint.port}",
            cassandra_username=endpoint.username,
            cassandra_password=endpoint.password,
        )
    )


def _act(site: Site, chosen: random.Random) -> None:
    """Let an actor write, and now and then take a snapshot and delete long consumed messages."""
    pid = chosen.choice(IDS)
    site.persist(pid, chosen.choice((1, 1, 3)), *chosen.choice(TAGS))
    consumed = {
        row["persistence_id"]: row["sequence_nr"]
        for row in site.own_rows("projection_offset")
        if not row["tag"]
    }
    to = min(site.truth.last(pid) - KEPT, consumed.get(pid, 0))
    if chosen.random() < 0.2 and to > 0:
        site.delete(pid, to)
    assert site.live is not None
    complete(site.live.delivered())
    time.sleep(0.5)  # the rate of the journal, not a wait for anything


def _stop_scheduler(home: Path) -> None:
    processes.stop(["scheduler"], home / "run")


def _restart(node: Cassandra, site: Site) -> None:
    node.stop()
    node.start()

    def is_connected() -> bool:
        """Return whether the sessions are connected, which each notices at its next attempt."""
        try:
            site.journal.control.execute("SELECT release_version FROM system.local")
        except CassandraUnavailable:
            return False
        return site.writer.current("red").failure is None

    wait_until("the actors' session and the test's own to be connected", is_connected, INTERVAL_S)


def _kill_an_application() -> None:
    """Send SIGKILL to the processes of an application of this test, if one runs."""

    def running() -> list[psutil.Process]:
        return [
            process
            for process in psutil.process_iter(["cmdline"])
            if any("spark_apps/" in word for word in process.info["cmdline"] or [])
            and "live-airflow" in _home(process)
        ]

    wait_until("an application to run", lambda: bool(running()), INTERVAL_S * 2)
    for process in running():
        process.kill()


def _home(process: psutil.Process) -> str:
    """Return the AIRFLOW_HOME of a process; empty when the process has ended."""
    try:
        return process.environ().get("AIRFLOW_HOME", "")
    except psutil.Error:
        return ""


def _wait_until_done(site: Site, airflow: Airflow) -> None:
    """Wait until the chain has consumed the last event of every series."""
    expected = {(pid, "", site.truth.last(pid)) for pid in site.truth.events}
    numbers = site.truth.numbers()
    red = [key for key in numbers if key[2] == "red"]
    last = {key[0]: max(numbers[k] for k in red if k[0] == key[0]) for key in red}
    expected |= {(pid, "red", number) for pid, number in last.items()}

    def consumed() -> bool:
        rows = site.own_rows("projection_offset")
        frontiers = {
            (r["persistence_id"], r["tag"], r["tag_pid_sequence_nr"] or r["sequence_nr"])
            for r in rows
        }
        return frontiers >= expected

    wait_until("the chain to have consumed everything", consumed, DEADLINE_S)
    with airflow.client() as client:
        for dag_id in CHAIN:
            newest = rest.runs(client, dag_id)[-1]
            assert newest["state"] in ("success", "running", "queued"), (dag_id, newest)
