"""project: read models from the events, each defined by one file of SQL or Python.

The rooms are the steps of a run, in this order: `planning`, `sources`, `acceptance`, `decoding`,
`transformation`, `writing`, `offset_store`. `definition` and `analysis` come before them, `running`
calls them, `management` is what people do by hand, `testing` is for users' own tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["projection"]
Function = TypeVar("Function", bound=Callable[..., Any])


def projection(**header: object) -> Callable[[Function], Function]:
    """State what a projection is; the arguments are the header of a SQL file, with `_` for `-`.

    They must be literals, also those in lists and dicts: they are read from the file before it is
    run, see `tidemark.headed_files.python_file`. The function stays as it is, so that it can be
    called in a test.

    In mode `fold` it is `fold(state, events)`: from the state of one persistence id (a dict of the
    fields in `state`, or None) and a pandas DataFrame of its next events in the order of their
    sequence nrs to the new state. In all other modes it takes the Spark DataFrame `events` and
    returns the result.
    """

    def unchanged(function: Function) -> Function:
        return function

    return unchanged
