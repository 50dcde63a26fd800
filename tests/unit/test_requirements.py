"""The files of direct dependencies, which pip can install and from which the locks are made."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.imports import distributions_imported, with_imported_files
from tests.repository import REPOSITORY as ROOT

RUNTIME, DEVELOPMENT = "requirements", "requirements-dev"


def pins(name: str) -> set[str]:
    """Return the lines of a file of direct dependencies, without options and reasons."""
    lines = (ROOT / f"{name}.txt").read_text().splitlines()
    texts = [line.partition("#")[0].strip() for line in lines]
    return {text for text in texts if text and not text.startswith("-")}


def locked(name: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+==\S+)", (ROOT / f"{name}.lock").read_text(), re.M))


@pytest.mark.parametrize("name", [RUNTIME, DEVELOPMENT])
def test_every_direct_dependency_is_pinned_as_it_is_locked(name: str) -> None:
    assert {pin for pin in pins(name) if not re.fullmatch(r"[a-z0-9-]+==[0-9.]+", pin)} == set()
    assert pins(name) - locked(name) == set()


def test_no_dependency_is_in_both_files_and_one_includes_the_other() -> None:
    assert pins(RUNTIME) & pins(DEVELOPMENT) == set()
    assert "\n-r requirements.txt\n" in (ROOT / "requirements-dev.txt").read_text()


def test_what_both_locks_have_is_the_same() -> None:
    assert locked(RUNTIME) < locked(DEVELOPMENT)
    of_runtime, of_development = (
        set(re.findall(r"^(\S+==\S+ .*\n(?:    .*\n)+)", (ROOT / f"{name}.lock").read_text(), re.M))
        for name in (RUNTIME, DEVELOPMENT)
    )
    assert len(of_runtime) == len(locked(RUNTIME))
    assert of_runtime < of_development


def test_the_image_has_all_that_its_programs_import() -> None:
    """Its programs are `embedded.container`, the applications, the DAGs and the plugin."""
    embedded = ROOT / "embedded"
    started = [*(embedded / "container").glob("*.py"), embedded / "machine" / "jars.py"]
    files = with_imported_files(embedded, started)
    for house in ("spark_apps", "plugins", "dags"):
        files |= set((ROOT / house).rglob("*.py"))
    names = {pin.partition("==")[0] for pin in locked(RUNTIME)}
    imported = distributions_imported(files)
    assert {name: of for name, of in imported.items() if name not in names} == {}


def test_the_locks_have_no_other_source() -> None:
    assert list(ROOT.glob("requirements*.in")) == []
    makefile = (ROOT / "Makefile").read_text()
    assert "requirements.txt -o requirements.lock" in makefile
    assert (
        "requirements-dev.txt --constraint requirements.lock -o requirements-dev.lock" in makefile
    )
    assert re.search(r"^\$\(VENV\): requirements-dev.lock ", makefile, re.M)


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


@pytest.mark.long
def test_pip_resolves_the_file_by_itself(tmp_path: Path) -> None:
    """It fetches what it resolves, which takes minutes."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    report = tmp_path / "report.json"
    ended = subprocess.run(
        [
            *(tmp_path / "bin" / "python", "-m", "pip", "install", "--dry-run", "--quiet"),
            *("--report", report, "--requirement", ROOT / "requirements.txt"),
        ],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    text = report.read_text()
    missing = [pin for pin in pins(RUNTIME) if f'"version": "{pin.partition("==")[2]}"' not in text]
    assert missing == []
