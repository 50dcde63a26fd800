"""Fixtures of the tests on clusters: journals with projections, and workers' Python."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.read_models import define
from tests.integration.conftest import control, make_journal, make_journals, pool
from tests.integration.project.projections import Projections
from tests.integration.support import Journal

__all__ = ["control", "make_journal", "make_journals", "pool"]


@pytest.fixture
def make_projections(
    make_journal: Callable[..., Journal], tmp_path: Path
) -> Callable[[str], Projections]:
    """Return a maker of journals with the same events and the same four projections."""
    return lambda name: define(make_journal(), tmp_path / name)


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
