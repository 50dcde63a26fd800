"""A small project whose tests the plugin schedules, with pytest and xdist as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.repository import REPOSITORY

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs pytest on the project, in a process of its own."""
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("TIDEMARK_STATE", str(pytester.mkdir("state")))
    pytester.makeini(
        "[pytest]\nmarkers =\n  long\n  soak\naddopts = --import-mode=importlib"
        " -p tests.scheduling.plugin -p no:cacheprovider -p no:schemathesis"
    )

    def run(*options: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess(*options, timeout=300)

    return run


@pytest.fixture
def write(pytester: pytest.Pytester) -> Callable[[str, str], Path]:
    """Return a function that writes a file of the project."""

    def write_file(name: str, text: str) -> Path:
        file = pytester.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    return write_file
