"""What every server's home directory needs: room, and one starter at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from embedded.errors import EmbeddedError

GIB = 1 << 30


@contextmanager
def one_starter(home: Path) -> Iterator[None]:
    """Make the home and keep a second start of it waiting until the first has finished.

    Raises:
        EmbeddedError: the home is another user's, who could have laid links and secrets there.
    """
    home.mkdir(parents=True, exist_ok=True)
    if home.stat().st_uid != os.geteuid():
        raise EmbeddedError(
            "the directory belongs to another user",
            str(home),
            "set TIDEMARK_STATE to a directory of your own",
        )
    with (home / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def keep_private(home: Path) -> None:
    """Let nobody else on this machine read what a server keeps in its home, whatever the umask."""
    home.chmod(0o700)


def require_space(home: Path, min_free_bytes: int) -> None:
    """Refuse a disk that is as good as full.

    Raises:
        EmbeddedError: Less than `min_free_bytes` are free where `home` lies.
    """
    free = shutil.disk_usage(home).free
    if free < min_free_bytes:
        raise EmbeddedError(
            f"disk full: {free / GIB:.1f} GiB free, {min_free_bytes / GIB:.1f} GiB needed",
            str(home),
            "free some space or set TIDEMARK_STATE to a directory on another disk",
        )
