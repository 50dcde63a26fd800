"""Where Tidemark is on this machine: the files that it ships, and the files of its users.

In a checkout, and in the container image, `include` in the package is a link to the `include` that
users edit. A wheel has a copy of it instead.
"""

from __future__ import annotations

import os
from pathlib import Path

from tidemark import __version__

_LINK = Path(__file__).resolve().parents[1] / "include"
SHIPPED = _LINK.resolve()
"""Schema files, templates and examples, and the defaults of what users write."""
IS_CHECKOUT = SHIPPED != _LINK
HOME = SHIPPED.parent if IS_CHECKOUT else Path.cwd()
"""The directory of users' files and of `.tidemark`: the checkout, else the current directory."""


def users_files(name: str) -> Path:
    """Return a file or directory of `include` in HOME; where it is absent there, the shipped one.

    Args:
        name: the path below `include`.
    """
    own = HOME / "include" / name
    return own if own.exists() else SHIPPED / name


def jars_directory() -> Path:
    """Return where fetched jars are, a directory for each group.

    Outside of a checkout it is one for each version: the jars that a version locks replace others.
    """
    if IS_CHECKOUT:
        return HOME / ".tidemark" / "jars"
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "tidemark" / __version__ / "jars"


def program(application: str) -> str:
    """Return the command that runs an application, as users type it here."""
    if IS_CHECKOUT:
        return f"spark_apps/{application.replace('-', '_')}.py"
    return f"tidemark {application}"


def fetch_command() -> str:
    """Return the command that fetches the jars of Spark."""
    return "make jars" if IS_CHECKOUT else "tidemark jars"
