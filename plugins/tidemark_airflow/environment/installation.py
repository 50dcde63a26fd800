"""The directories of Tidemark and its jars on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Return the directory that holds `spark_apps`: TIDEMARK_HOME, else the plugin's checkout.

    Raises:
        ValueError: the plugin is installed, and TIDEMARK_HOME is not set; Airflow shows it as an
            import error.
    """
    named = os.environ.get("TIDEMARK_HOME")
    if named:
        return Path(named)
    checkout = Path(__file__).resolve().parents[3]
    if not (checkout / "spark_apps").is_dir():
        raise ValueError("TIDEMARK_HOME is not set; set it to the directory that has spark_apps")
    return checkout


def spark_jars(group: str, variable: str) -> str:
    """Return a group of jars, comma-separated: those of the variable, or else the fetched jars."""
    configured = os.environ.get(variable)
    if configured:
        return configured
    fetched = home() / ".tidemark" / "jars" / group
    return ",".join(str(jar) for jar in sorted(fetched.glob("*.jar")))
