"""Links and files that somebody else has laid where the embedded servers keep theirs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from embedded.cassandra.server import Cassandra
from embedded.errors import EmbeddedError
from embedded.machine import secrets_file
from tidemark_airflow.environment.drivers import write_private


@pytest.mark.parametrize("name", ["password", "password.new"])
def test_a_secret_is_written_through_no_link(tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    home = tmp_path / "home"
    home.mkdir()
    (home / name).symlink_to(elsewhere)
    secret = secrets_file.keep(home / "password")
    kept = home / "password"
    assert not elsewhere.exists()
    assert kept.read_text() == secret
    assert not kept.is_symlink()
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_text_of_the_form_is_written_through_no_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "group.yaml").symlink_to(elsewhere)
    with pytest.raises(FileExistsError):
        write_private(tmp_path / "group.yaml", "a secret")
    assert not elsewhere.exists()


def test_a_home_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    home = tmp_path / "home"
    with pytest.raises(EmbeddedError, match="the directory belongs to another user"):
        Cassandra(home).start()
    assert list(home.iterdir()) == []
