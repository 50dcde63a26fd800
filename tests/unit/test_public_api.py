"""The names that users' Python may rely on, and the modules that have them."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import tidemark
from tests.repository import REPOSITORY

STDLIB = sys.stdlib_module_names
PUBLIC = {
    "tidemark": ["EventGroup", "Settings", "__version__", "errors", "row"],
    "tidemark.projection": ["projection"],
    "tidemark.projection.testing": ["failed_checks", "run_projection", "unreadable_events"],
}
"""A name that is to leave this list breaks somebody's definitions; a new name stays for long."""


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_these_and_can_be_imported(module: str) -> None:
    imported = importlib.import_module(module)
    assert sorted(imported.__all__) == PUBLIC[module]
    assert [name for name in PUBLIC[module] if not hasattr(imported, name)] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'tidemark' has no attribute 'nothing'"):
        tidemark.nothing  # noqa: B018


def test_importing_the_package_loads_nothing_else() -> None:
    code = (
        "import sys; before = set(sys.modules); import tidemark; print(*set(sys.modules) - before)"
    )
    ended = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(REPOSITORY / "spark_apps")},
    )  # fmt: skip
    others = {name for name in ended.stdout.split() if name.partition(".")[0] not in STDLIB}
    assert others == {"tidemark"}
