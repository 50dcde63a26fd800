"""The home directories of the embedded servers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from embedded.airflow.server import Airflow
from embedded.cassandra.server import Cassandra
from embedded.errors import EmbeddedError
from embedded.kafka.server import Kafka
from embedded.machine import state_dir


@pytest.mark.parametrize(
    "server",
    [
        lambda home: Cassandra(home, min_free_bytes=1 << 60),
        lambda home: Kafka(home, min_free_bytes=1 << 60),
        lambda home: Airflow(home, {}, min_free_bytes=1 << 60),
    ],
    ids=["cassandra", "kafka", "airflow"],
)
def test_home_of_a_server_is_for_its_owner_only(
    tmp_path: Path, server: Callable[[Path], Cassandra | Kafka | Airflow]
) -> None:
    """Journals, logs and Airflow's database lie in it; a full disk ends the start behind that."""
    home = tmp_path / "state" / "one"
    home.mkdir(parents=True)
    home.chmod(0o755)
    with pytest.raises(EmbeddedError, match="disk full"):
        server(home).start()
    assert home.stat().st_mode & 0o777 == 0o700


def test_directory_that_is_only_locked_stays_as_it_is(tmp_path: Path) -> None:
    """That of the jars is read by the containers of docker-compose, too."""
    tmp_path.chmod(0o755)
    with state_dir.one_starter(tmp_path):
        assert tmp_path.stat().st_mode & 0o777 == 0o755
