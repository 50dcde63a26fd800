"""An archive of the packages that Spark's Python workers need, for machines without them.

It has what `requirements.lock` has, by its hashes, and of that only what the workers import.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from embedded.errors import EmbeddedError
from embedded.paths import ROOT, STATE

NEEDED = ("cbor2", "pandas", "protobuf", "psycopg", "psycopg-binary", "pyarrow")
ARCHIVE = STATE / "worker-packages.zip"
_LOCK = ROOT / "requirements.lock"
_ENTRY = re.compile(r"^([\w.-]+)\S*==.*\n(?: .*\n)*", re.MULTILINE)


def build(archive: Path = ARCHIVE, also: tuple[str, ...] = ()) -> Path:
    """Write the archive and return its path; what was there is replaced in one step.

    Args:
        archive: The file; its name ends in `.zip`.
        also: Further packages of the lock, for the imports of users' functions.

    Raises:
        EmbeddedError: A package is not in the lock, or cannot be installed.
    """
    entries = _ENTRY.finditer(_LOCK.read_text("utf-8"))
    locked = {canonicalize_name(found[1]): found[0] for found in entries}
    archive.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=archive.parent) as folder:
        chosen = Path(folder) / "requirements.lock"
        chosen.write_text("".join(_entries(locked, (*NEEDED, *also))), encoding="utf-8")
        packages = Path(folder) / "packages"
        _install(chosen, packages)
        made = shutil.make_archive(str(Path(folder) / "archive"), "zip", packages)
        Path(made).replace(archive)
    return archive


def _entries(locked: Mapping[NormalizedName, str], names: tuple[str, ...]) -> list[str]:
    """Return the lock's entries of packages and of all that they need."""
    found: dict[NormalizedName, str] = {}
    left = [canonicalize_name(name) for name in names]
    while left:
        name = left.pop()
        if name in found:
            continue
        if name not in locked:
            raise EmbeddedError(f"there is no package {name}", str(_LOCK), "name a package of it")
        found[name] = locked[name]
        for text in metadata.requires(name) or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                left.append(canonicalize_name(needed.name))
    return [found[name] for name in sorted(found)]


def _install(requirements: Path, packages: Path) -> None:
    command = (
        *(Path(sys.executable).with_name("uv"), "pip", "install", "--quiet", "--no-deps"),
        *("--require-hashes", "--requirement", requirements, "--target", packages),
    )
    ended = subprocess.run(
        [*map(str, command), "--python", sys.executable], capture_output=True, text=True
    )
    if ended.returncode:
        raise EmbeddedError(
            "the workers' packages cannot be installed",
            str(requirements),
            "its last lines are below",
            detail="\n".join(f"    {line}" for line in ended.stderr.splitlines()[-15:]),
        )
