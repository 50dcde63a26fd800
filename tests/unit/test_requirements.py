"""The file requirements.txt, which pip can install and from which the lock is made."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_direct_dependency_is_pinned_as_it_is_locked() -> None:
    lines = [
        line.partition("#")[0].strip()
        for line in (ROOT / "requirements.txt").read_text().splitlines()
    ]
    pins = {line for line in lines if line}
    assert {pin for pin in pins if not re.fullmatch(r"[a-z0-9-]+==[0-9.]+", pin)} == set()
    locked = re.findall(r"^([a-z0-9-]+==\S+)", (ROOT / "requirements.lock").read_text(), re.M)
    assert pins - set(locked) == set()


def test_the_lock_has_no_other_source() -> None:
    assert list(ROOT.glob("requirements*.in")) == []
    assert "requirements.txt -o requirements.lock" in (ROOT / "Makefile").read_text()
