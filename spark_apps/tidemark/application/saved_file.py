"""Plans in files: JSON with a format number, written by one run and read by another."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tidemark.errors import InvalidInput

Saved = TypeVar("Saved")


def load(
    file: Path, format_number: int, read: Callable[[dict[str, Any]], Saved], made_by: str
) -> Saved:
    """Read a plan that `save` has written in the format of `format_number`.

    `read` turns the content into the plan. `made_by` is the command that makes such a file, for
    people.

    Raises:
        InvalidInput: the file cannot be read, or is no plan.
    """
    try:
        content = json.loads(file.read_text())
        if content.pop("format") != format_number:
            raise ValueError("another format")
        return read(content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidInput(
            f"not a saved plan: {type(error).__name__}: {error}",
            where=str(file),
            do=f"make one with `{made_by}`",
        ) from None


def save(file: Path, format_number: int, content: Mapping[str, Any]) -> None:
    """Write a plan as JSON.

    Raises:
        InvalidInput: the file cannot be written.
    """
    try:
        file.write_text(json.dumps({"format": format_number, **content}, indent=1) + "\n")
    except OSError as error:
        what = f"the plan cannot be saved: {error.strerror}"
        raise InvalidInput(what, where=str(file), do="name another file") from None
