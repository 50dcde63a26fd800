"""The directories that hold users' files, each named by a setting."""

from __future__ import annotations

from pathlib import Path

from tidemark.errors import InvalidInput


def require_directory(directory: Path, variable: str, files: str) -> None:
    """Refuse a directory that is not there.

    Args:
        directory: what the setting names.
        variable: the setting's environment variable.
        files: what it holds, for people.

    Raises:
        InvalidInput: there is no such directory.
    """
    if not directory.is_dir():
        raise InvalidInput(
            "there is no such directory",
            where=str(directory),
            do=f"set {variable} to the directory of {files}",
        )
