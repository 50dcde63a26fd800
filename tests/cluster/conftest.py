"""Fixtures of the tests on clusters: the journals of the integration tests, and workers' Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import control, make_journal, make_journals, pool

__all__ = ["control", "make_journal", "make_journals", "pool"]


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python of this version without packages, as on a machine that is only Spark's."""
    home = tmp_path_factory.mktemp("bare-python")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    return home / "bin" / "python"


@pytest.fixture(scope="session")
def worker_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the archive that `make worker-packages` makes."""
    from embedded.spark import worker_packages

    return worker_packages.build(tmp_path_factory.mktemp("packages") / "packages.zip")
