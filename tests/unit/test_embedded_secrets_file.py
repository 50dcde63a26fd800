from __future__ import annotations

import stat
from pathlib import Path

from embedded import credentials


def test_keep_makes_a_secret_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "password"

    secret = credentials.keep(path)

    assert credentials.keep(path) == secret
    assert credentials.keep(tmp_path / "other") != secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
