"""Where Tidemark is on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Return the directory that holds `spark_apps`: TIDEMARK_HOME, else the one of this plugin."""
    named = os.environ.get("TIDEMARK_HOME")
    return Path(named) if named else Path(__file__).resolve().parents[3]


def spark_jars(group: str, variable: str) -> str:
    """Return a group of jars, comma-separated: those the variable names, else the fetched ones."""
    named = os.environ.get(variable)
    if named:
        return named
    fetched = home() / ".tidemark" / "jars" / group
    return ",".join(str(jar) for jar in sorted(fetched.glob("*.jar")))
