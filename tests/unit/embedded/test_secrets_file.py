from __future__ import annotations

import stat
from pathlib import Path

from embedded.machine import secrets_file


def test_keep_makes_a_secret_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "password"

    secret = secrets_file.keep(path)

    assert secrets_file.keep(path) == secret
    assert secrets_file.keep(tmp_path / "other") != secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
