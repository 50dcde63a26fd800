"""The directories of Tidemark and its jars on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Return the directory with `spark_apps`: TIDEMARK_HOME, or else that of this plugin."""
    configured = os.environ.get("TIDEMARK_HOME")
    return Path(configured) if configured else Path(__file__).resolve().parents[3]


def spark_jars(group: str, variable: str) -> str:
    """Return a group of jars, comma-separated: those of the variable, or else the fetched jars."""
    configured = os.environ.get(variable)
    if configured:
        return configured
    fetched = home() / ".tidemark" / "jars" / group
    return ",".join(str(jar) for jar in sorted(fetched.glob("*.jar")))
