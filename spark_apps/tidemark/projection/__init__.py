"""project: read models from the events, each defined by one file of SQL or Python.

The rooms are the steps of a run, in this order: `planning`, `sources`, `acceptance`, `decoding`,
`transformation`, `writing`, `offset_store`. `definition` and `analysis` come before them, `running`
calls them, `management` is what people do by hand, `testing` is for users' own tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def projection(**header: object) -> Callable[[Function], Function]:
    """Define a projection; the arguments are the header of a SQL file, with `_` for `-`.

    The arguments must be literals, also in lists and dicts: Tidemark reads them from the file
    before it runs the file. The function does not change, so you can call it in a test.

    In mode `fold`, the function is `fold(state, events)`. It receives the state of one persistence
    id (a dict of the fields in `state`, or None) and a pandas DataFrame of its next events, in the
    order of their sequence nrs, and returns the new state. In all other modes, it receives the
    Spark DataFrame `events` and returns the result.
    """

    def unchanged(function: Function) -> Function:
        return function

    return unchanged
