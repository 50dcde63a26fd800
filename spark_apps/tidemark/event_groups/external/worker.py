"""The process that calls users' functions: one JSON line in for each call, one out.

It is run as a script and imports nothing of Tidemark, so that a library's dependencies may differ
from ours. Its arguments are `distribution=directory`, where functions may be: in any module below
the directory, or only in those that the distribution has put there. When its parent has ended, it
ends with all processes that it has started.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import pkgutil
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from queue import Queue
from typing import Any, TextIO
from uuid import UUID

_NAME = re.compile(r"(\w+(?:\.\w+)*):(\w+)")


class Rejected(Exception):
    """A name that may not be called, with the reason."""


@dataclass(frozen=True)
class WorkerPlace:
    """A directory, without links, of modules that may have functions to call.

    With a distribution, these are only the modules that it has put there.
    """

    directory: Path
    distribution: str

    @classmethod
    def parsed(cls, argument: str) -> WorkerPlace:
        """Parse an argument of the script."""
        distribution, _, directory = argument.partition("=")
        return cls(Path(directory), distribution)

    def has(self, file: Path) -> bool:
        """Tell whether a file is a Python file below the directory, after following links."""
        real = file.resolve()
        return real.is_relative_to(self.directory) and real.suffix == ".py" and real.is_file()


PLACES = [WorkerPlace.parsed(argument) for argument in sys.argv[1:]]


def main() -> None:
    """Answer calls until the parent closes its end."""
    # Python's own modules come first, so that users' files cannot replace modules others import.
    installed = (index for index, entry in enumerate(sys.path) if entry.endswith("-packages"))
    first = next(installed, len(sys.path))
    sys.path[first:first] = [str(place.directory) for place in PLACES]
    # Output of functions must not get between the answers.
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
    except Rejected as error:
        return json.dumps({"error": str(error)})
    except Exception as error:
        return json.dumps({"error": f"{type(error).__name__}: {error}{_place(error)}"})


@cache
def _function(name: str) -> Callable[[Any], Any]:
    """Import a function; nothing is executed before it is known to be one of the users' own.

    Raises:
        Rejected: it is not defined in a module of the places.
    """
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise Rejected("it is not written `module:function`")
    module, function = parts.groups()
    if any(part.startswith("_") for part in (*module.split("."), function)):
        raise Rejected("names that begin with _ are private")
    file = _file_of(module)
    if not _defines(file, function):
        raise Rejected(f"{file.name} has no `def {function}` at its top level")
    imported = importlib.import_module(module)
    value = getattr(imported, function, None)
    # A decorator that uses functools.wraps, or functools.cache, keeps the name of the module.
    is_own = getattr(value, "__module__", None) == module and not isinstance(value, type)
    if imported.__file__ != str(file) or not is_own or not callable(value):
        raise Rejected(
            f"{file.name} replaces the function after its `def`, or its decorator does so without"
            " functools.wraps"
        )
    callable_function: Callable[[Any], Any] = value
    return callable_function


def _file_of(module: str) -> Path:
    """Return the file that an import of a module would execute, without importing it.

    Raises:
        Rejected: that file, or the file of a package around it, is in none of the places.
    """
    names = module.split(".")
    if names[0] in sys.stdlib_module_names:
        raise _foreign(module)
    spec, search = None, sys.path
    for number in range(1, len(names) + 1):
        spec = _spec(".".join(names[:number]), search)
        if spec is None:
            break
        if spec.origin is not None:
            _require_own(module, Path(spec.origin))
        search = spec.submodule_search_locations or []
    if spec is None or spec.origin is None:
        raise Rejected(f"there is no module {module} in {_directories()}")
    return Path(spec.origin)


def _spec(name: str, search: Iterable[str]) -> ModuleSpec | None:
    """Find a module as an import does, but without importing the packages around it."""
    portions: list[str] = []
    for entry in search:
        finder = pkgutil.get_importer(entry)
        spec = None if finder is None else finder.find_spec(name, None)
        if spec is None:
            continue
        if spec.loader is not None:
            return spec
        portions += spec.submodule_search_locations or []
    if not portions:
        return None
    namespace = ModuleSpec(name, None, is_package=True)
    namespace.submodule_search_locations = portions
    return namespace


def _require_own(module: str, file: Path) -> None:
    """Raise Rejected if a file that an import of a module executes is in none of the places."""
    # The innermost place decides: a library may be below the functions.
    for place in sorted(PLACES, key=lambda place: len(place.directory.parts), reverse=True):
        if not file.is_relative_to(place.directory):
            continue
        name = file.relative_to(place.directory)
        if not place.has(file):
            raise Rejected(f"{name} is not a Python file below {place.directory}")
        if place.distribution and file.resolve() not in _files(place):
            raise Rejected(f"{name} is not a module of {place.distribution} itself")
        return
    raise _foreign(module)


@cache
def _files(place: WorkerPlace) -> set[Path]:
    """Return the files of the distribution of a place."""
    # Imported here: it takes longer than all other imports, and most groups load no library.
    from importlib.metadata import distributions

    owners = distributions(name=place.distribution, path=[str(place.directory)])
    files = (file for owner in owners for file in owner.files or ())
    return {Path(str(file.locate())).resolve() for file in files}


def _foreign(module: str) -> Rejected:
    """Return the error for a module of Python or of an installed package."""
    top = module.partition(".")[0]
    spec = _spec(top, [str(place.directory) for place in PLACES])
    if spec is None:
        return Rejected(f"there is no module {module} in {_directories()}")
    file = spec.origin or next(iter(spec.submodule_search_locations or ()))
    return Rejected(f"Python finds another {top} before {file}, which needs another name")


def _directories() -> str:
    return " or ".join(str(place.directory) for place in PLACES)


def _defines(file: Path, function: str) -> bool:
    """Tell whether a file has a `def` of this name at its top level, without importing it."""
    statements = ast.parse(file.read_bytes(), file.name).body
    return any(isinstance(node, ast.FunctionDef) and node.name == function for node in statements)


def _place(error: BaseException) -> str:
    """Return the innermost place below the users' directories, as ` (file.py:12)`."""
    place, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if any(Path(file).is_relative_to(place.directory) for place in PLACES):
            place = f" ({os.path.basename(file)}:{trace.tb_lineno})"
        trace = trace.tb_next
    return place


def _plain(value: Any) -> Any:
    """Return a value that JSON cannot express as a text that Cassandra understands."""
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
