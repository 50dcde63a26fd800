"""The public API for authors of projections: the decorator, and `testing` for unit tests.

The application is `tidemark.project`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["projection"]
Function = TypeVar("Function", bound=Callable[..., Any])


def projection(**header: object) -> Callable[[Function], Function]:
    """Define a projection; the arguments are the header keys of a SQL file, with `_` for `-`.

    All arguments must be literals, also inside lists and dicts, because Tidemark reads the header
    without running the file, see `tidemark.user_files.python_file`. The decorator returns the
    function unchanged, so that a test can call it.

    In mode `fold` the function is `fold(state, events)`. It takes the state of one persistence id
    (a dict of the fields in `state`, or None) and a pandas DataFrame of its next events in the
    order of their sequence nrs, and returns the new state. In all other modes the function takes
    the Spark DataFrame `events` and returns the result.
    """

    def unchanged(function: Function) -> Function:
        return function

    return unchanged
