"""The home directories of the embedded servers."""

from __future__ import annotations

from pathlib import Path

from embedded import homes


def test_home_is_for_its_owner_only(tmp_path: Path) -> None:
    """Whatever the umask: journals, logs and Airflow's database lie in it."""
    home = tmp_path / "state" / "cassandra"
    home.mkdir(parents=True)
    home.chmod(0o755)
    with homes.one_starter(home):
        assert home.stat().st_mode & 0o777 == 0o700
