"""Random secrets, kept in files that only their owner can read."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path


def keep(path: Path, make: Callable[[], str] = lambda: secrets.token_urlsafe(24)) -> str:
    """Return the secret in a file, making both on the first call.

    The file has mode 0600 from its first byte on.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        secret = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(secret)
    os.replace(unfinished, path)
    return secret
