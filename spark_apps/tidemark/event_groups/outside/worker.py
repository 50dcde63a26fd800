"""A process that calls users' functions: one JSON line in for each call, one out.

It is run as a script, with the directories of the users' modules as its arguments, and imports
nothing of Tidemark, so that a library's own dependencies may differ from ours. When its parent is
gone, it ends with all that it has started.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from importlib.machinery import ModuleSpec, PathFinder
from queue import Queue
from typing import Any, TextIO
from uuid import UUID

_DIRECTORIES = "TIDEMARK_EVENT_GROUP_FUNCTIONS_DIR and the libraries of the stream"


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
    """Return a function that a file below the directories defines; only that file is imported."""
    module, function = name.split(":")
    file = _file(module)
    _require_defined(file, function)
    imported = importlib.import_module(module)
    defined: Callable[[Any], Any] = getattr(imported, function)
    is_own = getattr(defined, "__module__", "") == module and callable(defined)
    if not is_own or os.path.realpath(str(imported.__file__)) != os.path.realpath(file):
        raise ImportError(f"{os.path.basename(file)} puts something else in place of {function}")
    return defined


def _file(module: str) -> str:
    """Return the file of a module; nothing is imported, not even its packages."""
    top, *inner = module.split(".")
    if top in sys.stdlib_module_names:
        raise ImportError(f"{top} is a module of Python; give the file another name")
    spec = PathFinder.find_spec(top)
    for depth in range(1, len(inner) + 1):
        if spec is None or not _is_below(spec):
            break
        name = ".".join([top, *inner[:depth]])
        spec = PathFinder.find_spec(name, spec.submodule_search_locations or ())
    # A package without a file is none that could run anything, but a function is in a file.
    if spec is None or not spec.has_location or not _is_below(spec):
        raise ImportError(f"there is no file {'/'.join([top, *inner])}.py below {_DIRECTORIES}")
    return str(spec.origin)


def _is_below(spec: ModuleSpec) -> bool:
    """Tell whether the file of a module, if it has one, lies in a directory where links lead."""
    if not spec.has_location:
        return True
    real = os.path.realpath(str(spec.origin))
    roots = map(os.path.realpath, sys.argv[1:])
    return any(os.path.commonpath([real, root]) == root for root in roots)


def _require_defined(file: str, function: str) -> None:
    if not file.endswith(".py"):
        raise ImportError(f"{os.path.basename(file)} is no file of Python source")
    with open(file, "rb") as source:
        tree = ast.parse(source.read(), file)
    if not any(isinstance(node, ast.FunctionDef) and node.name == function for node in tree.body):
        raise ImportError(f"{os.path.basename(file)} has no line `def {function}(...):`")


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
