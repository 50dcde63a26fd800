"""Locations of Tidemark's files on this machine: shipped files, and files of users.

In a checkout and in the container image, these are the same directory `include`. A wheel has a
copy of it in the package.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from tidemark import __version__

_PACKAGE = Path(__file__).resolve().parents[1]
_ROOT = _PACKAGE.parents[1]
IS_CHECKOUT = _PACKAGE.parent.name == "spark_apps" and (_ROOT / "include").is_dir()
SHIPPED = (_ROOT if IS_CHECKOUT else _PACKAGE) / "include"
"""Schema files, templates and examples, and the defaults of what users write."""
HOME = _ROOT if IS_CHECKOUT else Path(os.environ.get("TIDEMARK_HOME") or Path.cwd()).resolve()
"""The directory of users' files and of `.tidemark`: the checkout; of a wheel TIDEMARK_HOME, or else
the current directory."""
JOURNAL_VARIABLE = "TIDEMARK_JOURNAL"
DEFAULT_JOURNAL = "default"
"""The journal of the environment's variables; others are entries of a file."""
_of_block: ContextVar[str] = ContextVar("journal", default="")


def chosen_journal() -> str:
    """Return the name of the journal of this process, or of the block of `of_journal`."""
    return _of_block.get() or os.environ.get(JOURNAL_VARIABLE) or DEFAULT_JOURNAL


@contextmanager
def of_journal(name: str) -> Iterator[None]:
    """Choose a journal within a block, for servers: other threads and tasks keep theirs."""
    token = _of_block.set(name)
    try:
        yield
    finally:
        _of_block.reset(token)


def place_of_setting(variable: str) -> str:
    """Return where users of this journal set a setting: the variable, or the key of the entry."""
    journal = chosen_journal()
    if journal == DEFAULT_JOURNAL:
        return variable
    key = variable.removeprefix("TIDEMARK_").replace("_", "-").lower()
    return f"{key} of the journal {journal}"


def users_files(name: str) -> Path:
    """Return a path below `include` in HOME; if HOME does not have it, the shipped one."""
    users_path = HOME / "include" / name
    return users_path if users_path.exists() else SHIPPED / name


def jars_directory() -> Path:
    """Return the directory of fetched jars, with a directory for each group.

    Outside of a checkout each version has its own, since fetching removes jars of other locks.
    """
    if IS_CHECKOUT:
        return HOME / ".tidemark" / "jars"
    cache_directory = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache_directory) / "tidemark" / __version__ / "jars"


def program(application: str) -> str:
    """Return the command that runs an application, as users of this installation type it."""
    journal = chosen_journal()
    is_default = journal == DEFAULT_JOURNAL
    if IS_CHECKOUT:
        script = f"spark_apps/{application.replace('-', '_')}.py"
        return script if is_default else f"{JOURNAL_VARIABLE}={shlex.quote(journal)} {script}"
    options = "" if is_default else f"--journal {shlex.quote(journal)} "
    return f"tidemark {options}{application}"


def fetch_command() -> str:
    """Return the command that fetches the jars of Spark."""
    return "make jars" if IS_CHECKOUT else "tidemark jars"
