"""The secrets of a container: files, one for each, with any character in them."""

from __future__ import annotations

import os
from pathlib import Path

from embedded.errors import EmbeddedError

DIRECTORY = "/run/secrets"
"""Where Compose mounts them."""


class Secrets:
    """The files in `SECRETS_DIR`, by default where Compose mounts them."""

    def __init__(self) -> None:
        self._directory = Path(os.environ.get("SECRETS_DIR", DIRECTORY))

    def path(self, name: str) -> Path | None:
        """Return the file of a secret; None if this container has not been given it."""
        file = self._directory / name
        return file if file.exists() else None

    def text(self, name: str) -> str | None:
        """Return a secret without the line ends at its end; None if it has not been given.

        Raises:
            EmbeddedError: it cannot be read, is no text, has several lines, or is empty.
        """
        file = self.path(name)
        if file is None:
            return None
        try:
            text = file.read_bytes().decode().rstrip("\n")
        except PermissionError:
            raise EmbeddedError(
                "a secret cannot be read by the container's user",
                str(file),
                "let all read the file on the host, in a directory that is yours alone",
            ) from None
        except (OSError, UnicodeDecodeError):
            raise EmbeddedError(
                "a secret is no file of UTF-8 text", str(file), "write it anew"
            ) from None
        if any(character in text for character in "\r\n\0"):
            raise EmbeddedError(
                "a secret has several lines, or the line ends of Windows",
                str(file),
                "write it in one line",
            )
        if not text:
            raise EmbeddedError("a secret is empty", str(file), "write it in one line")
        return text
