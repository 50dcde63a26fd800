"""A process that calls users' functions: one JSON line in for each call, one out.

It is run as a script, with the directories of the users' modules as its arguments, and imports
nothing of Tidemark, so that a library's own dependencies may differ from ours. When its parent is
gone, it ends with all that it has started.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from queue import Queue
from typing import Any, TextIO
from uuid import UUID


def main() -> None:
    """Answer calls until the parent closes its end."""
    sys.path[:1] = sys.argv[1:]
    # What a function prints must not stand between the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    calls: Queue[str] = Queue()
    threading.Thread(target=_listen, args=(sys.stdin, calls), daemon=True).start()
    while True:
        print(_answer(json.loads(calls.get(), parse_float=Decimal)), file=answers)


def _listen(lines: TextIO, calls: Queue[str]) -> None:
    for line in lines:
        calls.put(line)
    os.killpg(0, signal.SIGKILL)


def _answer(call: dict[str, Any]) -> str:
    try:
        function = _function(call["function"])
        if "argument" not in call:
            return json.dumps({"value": None})
        return json.dumps({"value": function(call["argument"])}, default=_plain)
    except Exception as error:
        return json.dumps({"error": f"{type(error).__name__}: {error}{_place(error)}"})


def _function(name: str) -> Callable[[Any], Any]:
    module, function = name.split(":")
    found = getattr(importlib.import_module(module), function)
    if not callable(found):
        raise TypeError(f"{name} is no function")
    callable_found: Callable[[Any], Any] = found
    return callable_found


def _place(error: BaseException) -> str:
    """Return ` (file.py:12)`, the innermost place below the users' directories."""
    place, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if any(file.startswith(directory) for directory in sys.argv[1:]):
            place = f" ({os.path.basename(file)}:{trace.tb_lineno})"
        trace = trace.tb_next
    return place


def _plain(value: Any) -> Any:
    """Return what JSON has no form for as a text that Cassandra understands."""
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    raise TypeError(f"a {type(value).__name__} cannot become a parameter")


if __name__ == "__main__":
    main()
