from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from embedded.cassandra import roles
from embedded.cassandra.server import Cassandra, Endpoint
from embedded.errors import EmbeddedError
from embedded.machine import ports, processes


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((ports.HOST, port)) == 0


@pytest.mark.parametrize(
    ("username", "password"), [("tidemark", "wrong"), ("cassandra", "cassandra"), ("nobody", "x")]
)
def test_the_server_refuses_a_wrong_login(
    cassandra: Endpoint, username: str, password: str
) -> None:
    with (
        pytest.raises(roles.LoginRefused),
        roles.session(cassandra.host, cassandra.port, username, password),
    ):
        pytest.fail("the login was accepted")


def test_an_endpoint_does_not_show_its_password(cassandra: Endpoint) -> None:
    assert cassandra.password not in repr(cassandra)


def test_start_refuses_a_full_disk(tmp_path: Path) -> None:
    node = Cassandra(tmp_path, min_free_bytes=1 << 60)

    with pytest.raises(EmbeddedError) as refused:
        node.start()

    assert str(refused.value).startswith("disk full: ")
    assert str(refused.value).endswith(
        f"{tmp_path}; free some space or set TIDEMARK_STATE to a directory on another disk"
    )
    assert node.endpoint() is None


def test_start_refuses_a_pinned_port_that_is_taken(tmp_path: Path, cassandra: Endpoint) -> None:
    node = Cassandra(tmp_path, port=cassandra.port)

    with pytest.raises(EmbeddedError, match=rf"^port {cassandra.port} is already in use by pid \d"):
        node.start()

    assert node.endpoint() is None


def test_start_tells_the_last_log_lines_of_a_server_that_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").write_text("a file where the data directory belongs", "utf-8")

    with pytest.raises(EmbeddedError, match=r"^Cassandra died while starting: .*\n.*") as died:
        Cassandra(tmp_path).start()

    assert str(tmp_path / "data") in died.value.detail
    assert processes.all_recorded(tmp_path.parent) == {}


def test_a_second_start_keeps_data_and_password_and_stop_leaves_nothing(tmp_path: Path) -> None:
    node = Cassandra(tmp_path)
    try:
        first = node.start()
        process = processes.running("cassandra", tmp_path / "run")
        assert node.start() == first
        assert processes.running("cassandra", tmp_path / "run") == process
        with roles.session(first.host, first.port, first.username, first.password) as session:
            session.execute(
                "CREATE KEYSPACE kept WITH replication ="
                " {'class': 'SimpleStrategy', 'replication_factor': 1}"
            )
        assert node.stop()
        assert not node.stop()
        assert not listens(first.port)
        assert not listens(ports.read(tmp_path / "ports.json")["storage"])
        assert node.endpoint() is None

        second = node.start()
        assert second == first
        with roles.session(second.host, second.port, second.username, second.password) as session:
            assert session.execute(
                "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = 'kept'"
            ).one()
    finally:
        node.stop()


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_ending_a_start_leaves_no_process_behind(
    tmp_path: Path, signal_number: signal.Signals
) -> None:
    record = tmp_path / "cassandra" / "run" / "cassandra.json"
    command = [sys.executable, "-m", "embedded", "cassandra"]
    environment = {**os.environ, "TIDEMARK_STATE": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as starter:
        deadline = time.monotonic() + 60
        while not record.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        child = processes.recorded("cassandra", record.parent)
        starter.send_signal(signal_number)
        starter.communicate(timeout=90)

    assert starter.returncode != 0
    assert child is not None
    assert not psutil.pid_exists(child.pid) or child.find() is None
    assert not record.exists()
