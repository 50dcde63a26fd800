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


def test_uv_is_installed_by_its_hashes() -> None:
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    installs = re.findall(r"-m pip install (.*?);", makefile)
    assert [options.split()[-2:] for options in installs] == [
        ["--requirement", "requirements-uv.lock"]
    ]
    assert all({"--require-hashes", "--no-deps"} < set(options.split()) for options in installs)
    assert re.search(r"^\$\(VENV\):.* requirements-uv.lock\b", makefile, re.M)


def test_the_lock_of_uv_has_the_version_of_the_makefile_and_its_hashes() -> None:
    [version] = re.findall(r"^UV_VERSION := (\S+)$", (ROOT / "Makefile").read_text(), re.M)
    pin, *hashes = (ROOT / "requirements-uv.lock").read_text().replace("\\\n", "").split()
    assert pin == f"uv=={version}"
    assert hashes
    assert {one for one in hashes if not re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one)} == set()
