"""What other users of this machine can reach of the embedded servers."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cassandra import AuthenticationFailed, Unauthorized
from cassandra.cluster import Cluster, NoHostAvailable

from embedded.cassandra.server import Endpoint
from embedded.machine import processes
from tests.security.seen import listening, process_tree

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def reachable(place: Path) -> Iterator[Path]:
    """Yield the files in a directory, at any depth, that others can open."""
    mode = place.lstat().st_mode
    if not mode & OTHERS or stat.S_ISLNK(mode):
        return
    if stat.S_ISDIR(mode):
        for path in place.iterdir():
            yield from reachable(path)
    else:
        yield place


@pytest.mark.usefixtures("cassandra", "kafka")
@pytest.mark.parametrize("server", ["cassandra", "kafka"])
def test_files_of_a_server_are_its_users_own(state: Path, server: str) -> None:
    home = state / server
    assert any(home.rglob("*"))
    assert list(reachable(home)) == []


@pytest.mark.usefixtures("cassandra", "kafka")
@pytest.mark.parametrize("server", ["cassandra", "kafka"])
def test_another_user_reads_no_file_of_a_server(state: Path, server: str) -> None:
    """Tried as another user where the tests run as root; the modes are asserted in any case."""
    find = ["find", str(state / server), "-type", "f", "-readable"]
    own = subprocess.run(find, capture_output=True, text=True, check=True)
    assert own.stdout
    if os.geteuid() == 0:
        nobody = subprocess.run(
            find, user="nobody", group="nogroup", extra_groups=[], capture_output=True, text=True
        )
        assert nobody.stdout == ""
        assert "Permission denied" in nobody.stderr


@pytest.mark.usefixtures("cassandra", "kafka")
@pytest.mark.parametrize("server", ["cassandra", "kafka"])
def test_ports_of_a_server_are_those_of_this_machine(state: Path, server: str) -> None:
    server_process = processes.running(server, state / server / "run")
    assert server_process is not None
    addresses = {
        address.removeprefix("::ffff:") for address in listening(process_tree(server_process))
    }
    assert addresses
    assert {address for address in addresses if not address.startswith("127.")} == set()


def test_nobody_asks_cassandra_without_its_password(cassandra: Endpoint) -> None:
    with (
        Cluster([cassandra.host], port=cassandra.port) as cluster,
        pytest.raises(NoHostAvailable) as refused,
    ):
        cluster.connect()
    [error] = refused.value.errors.values()
    assert isinstance(error, AuthenticationFailed | Unauthorized)
