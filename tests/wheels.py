"""The wheels, built as `make wheels` builds them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.repository import REPOSITORY

HOUSES = {"tidemark": REPOSITORY / "spark_apps", "tidemark-airflow": REPOSITORY / "plugins"}
"""The directory with the `pyproject.toml` of each distribution."""


def build(directory: Path) -> dict[str, Path]:
    """Build both wheels into a directory; hatchling is the one of this environment."""
    for house in HOUSES.values():
        subprocess.run(
            [
                *(Path(sys.executable).with_name("uv"), "build", "--wheel", "--quiet"),
                *("--no-build-isolation", "--python", sys.executable),
                *("--out-dir", directory, house),
            ],
            check=True,
        )
    return {name: next(directory.glob(f"{name.replace('-', '_')}-*.whl")) for name in HOUSES}
