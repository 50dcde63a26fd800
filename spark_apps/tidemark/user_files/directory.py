"""The directories that hold users' files, each named by a setting."""

from __future__ import annotations

from pathlib import Path

from tidemark.errors import InvalidInput
from tidemark.installation import place_of_setting


def require_directory(directory: Path, variable: str, files: str) -> None:
    """Reject a directory that does not exist.

    Args:
        directory: value of the setting.
        variable: environment variable of the setting.
        files: contents of the directory, for the error message.

    Raises:
        InvalidInput: there is no such directory.
    """
    if not directory.is_dir():
        raise InvalidInput(
            "there is no such directory",
            where=str(directory),
            do=f"set {place_of_setting(variable)} to the directory of {files}",
        )
