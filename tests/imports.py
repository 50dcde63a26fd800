"""Which distributions the imports of some files come from."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from packaging.utils import NormalizedName, canonicalize_name

from tests.repository import REPOSITORY

_OUR_OWN = (
    "benchmarks",
    "embedded",
    "examples",
    "tests",
    "tidemark",
    "tidemark_airflow",
    "tidemark_plugin",
)


def modules_imported(file: Path) -> set[str]:
    """Return the names of the modules that a file imports, at its top or within functions."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def distributions_imported(files: Iterable[Path]) -> dict[NormalizedName, set[str]]:
    """Return the distributions that files import, each with these files."""
    imported: dict[NormalizedName, set[str]] = {}
    for file in files:
        for module in modules_imported(file):
            top = module.partition(".")[0]
            if top not in sys.stdlib_module_names and top not in _OUR_OWN:
                name = _distribution_of(module)
                imported.setdefault(name, set()).add(str(file.relative_to(REPOSITORY)))
    return imported


def with_imported_files(package: Path, files: Iterable[Path]) -> set[Path]:
    """Return files, and all files of a package that they import, directly or not."""
    reached: set[Path] = set()
    left = [*files]
    while left:
        file = left.pop()
        if file in reached:
            continue
        reached.add(file)
        for module in _candidates(file, package.name):
            parts = module.split(".")[1:]
            paths = (
                package.joinpath(*parts, "__init__.py"),
                package.joinpath(*parts[:-1], f"{parts[-1]}.py"),
            )
            left += [path for path in paths if path.is_file()]
    return reached


def _candidates(file: Path, top: str) -> set[str]:
    names = modules_imported(file)
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.startswith(f"{top}.")}


@cache
def _by_package() -> dict[str, list[str]]:
    return {name: sorted(set(of)) for name, of in metadata.packages_distributions().items()}


@cache
def _distribution_of(module: str) -> NormalizedName:
    """Return the distribution that has a module; several share a name such as `google`."""
    candidates = _by_package()[module.partition(".")[0]]
    if len(candidates) == 1:
        return canonicalize_name(candidates[0])
    spec = find_spec(module)
    assert spec is not None, module
    assert spec.origin is not None, module
    [name] = [
        candidate
        for candidate in candidates
        if any(
            spec.origin.endswith(f"/{file}")
            for file in metadata.distribution(candidate).files or ()
        )
    ]
    return canonicalize_name(name)
