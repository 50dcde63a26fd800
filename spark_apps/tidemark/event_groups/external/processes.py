"""Starts, calls and ends the processes of users' functions."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import IO, Any

from tidemark.event_groups.failure import EventFailed

_WORKER = Path(__file__).with_name("worker.py")
CONFINED = (sys.executable, "-I", "-S", str(Path(__file__).with_name("confined.py")))
"""The start of a command that must not read the memory of our processes."""
_PUBLIC_VARIABLES = re.compile(
    r"PATH|LD_LIBRARY_PATH|HOME|USER|LOGNAME|TMPDIR|TZ|LANG|LANGUAGE|LC_[A-Z]+"
    r"|(?i:https?|ftp|all|no)_(?i:proxy)|SSL_CERT_(FILE|DIR)|(REQUESTS|CURL)_CA_BUNDLE"
)
"""Variables that programs need to run as on the command line. All others in our environment may be
secrets: the keys of the JVM and of Airflow, those of clouds and registries."""
Places = Mapping[Path, str]
"""Directories of modules, each with the distribution whose modules have functions to call; with
an empty text, all modules have."""
_GRACE_S = 5.0
_IMPORT_S = 60.0


class Functions:
    """Calls functions from some places; a process serves one call at a time."""

    def __init__(self, places: Callable[[], Places]) -> None:
        """Bind; processes are started when needed, with the places at that time."""
        self._places = places
        self._mutex = threading.Lock()
        self._idle: list[subprocess.Popen[str]] = []
        self._all: list[subprocess.Popen[str]] = []
        self._renewals = 0
        self._helpers: list[tuple[str, subprocess.Popen[str]]] = []
        self._failure = ""

    def renew(self) -> None:
        """Use new processes for further calls, because the places have changed."""
        with self._mutex:
            idle, self._idle = self._idle, []
            self._renewals += 1
        for process in idle:
            self._end(process)

    def require(self, name: str, timeout: float) -> None:
        """Import a function.

        Raises:
            EventFailed: the places do not define it, or it cannot be imported.
        """
        self._request(name, _import(name), timeout)

    def call(self, name: str, argument: str, timeout: float) -> Any:
        """Call a function with a JSON value; return its value, with numbers in it as texts.

        The function gets numbers with a fraction as Decimal.

        Raises:
            EventFailed: it raises, takes longer than `timeout` seconds, or its process ends.
        """
        return self._request(name, _call(name, argument), timeout)

    def _request(self, name: str, call: str, timeout: float) -> Any:
        process, renewals = self._free_process()
        try:
            answer = _answered(process, call, timeout)
        except EventFailed as failure:
            self._end(process)
            raise EventFailed(f"{name} {failure}") from None
        with self._mutex:
            is_of_use = renewals == self._renewals
            if is_of_use:
                self._idle.append(process)
        if not is_of_use:
            self._end(process)
        if "error" in answer:
            raise EventFailed(f"{name}: {answer['error']}")
        return answer["value"]

    def _free_process(self) -> tuple[subprocess.Popen[str], int]:
        with self._mutex:
            if self._idle:
                return self._idle.pop(), self._renewals
            renewals = self._renewals
        return self._new_process(), renewals

    def _new_process(self) -> subprocess.Popen[str]:
        process = started(self._places())
        with self._mutex:
            self._all.append(process)
        return process

    def _end(self, process: subprocess.Popen[str]) -> None:
        end(process)
        with self._mutex:
            self._all.remove(process)

    def start_helper(self, name: str, argument: str) -> None:
        """Call a function in a process that lives until `close`, or until this process ends.

        Returns when the function is imported.

        Raises:
            EventFailed: it cannot be imported, or a library is not available any more.
        """
        process = self._new_process()
        try:
            answer = _answered(process, _import(name), _IMPORT_S)
        except EventFailed as failure:
            raise EventFailed(f"the import of the helper {name} {failure}") from None
        if "error" in answer:
            raise EventFailed(f"the helper {name}: {answer['error']}")
        _write(process, _call(name, argument))
        self._helpers.append((name, process))

    def helper_failure(self) -> str:
        """Return why a helper has failed; empty if all are running or have returned."""
        with self._mutex:
            for name, process in () if self._failure else self._helpers:
                self._failure = self._failure or _helper_failure(name, process)
            return self._failure

    def close(self) -> None:
        """End all processes."""
        with self._mutex:
            processes, self._idle = list(self._all), []
        for process in processes:
            self._end(process)


def environment_for_others(*prefixes: str) -> dict[str, str]:
    """Return the part of our environment that other programs get, without settings and secrets.

    `prefixes` are those of further variables, for the program itself.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if _PUBLIC_VARIABLES.fullmatch(name) or name.startswith(prefixes)
    }


def started(places: Places) -> subprocess.Popen[str]:
    """Start a worker in its own process group, without our settings and secrets."""
    arguments = [f"{distribution}={place.resolve()}" for place, distribution in places.items()]
    return subprocess.Popen(  # noqa: S603  our own scripts
        [*CONFINED, sys.executable, "-P", str(_WORKER), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment_for_others() | {"PYTHONDONTWRITEBYTECODE": "1"},
        # Files that it writes by a relative path must not get between the files of a run.
        cwd="/",
        encoding="utf-8",
        start_new_session=True,
    )


def end(process: subprocess.Popen[str]) -> None:
    """End a process and all that it has started: first by a request, then by force."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def _answered(process: subprocess.Popen[str], call: str, timeout: float) -> Any:
    """Return the answer to a call.

    Raises:
        EventFailed: there is none in time, or the process has ended; the message has no subject.
    """
    answer: Any = {}
    if _write(process, call) and process.stdout is not None:
        answer = _line(process.stdout, timeout)
    if answer is None:
        raise EventFailed(f"has not answered within {timeout:g} s")
    if not answer:
        raise EventFailed(_end_of(process))
    return answer


def _line(answers: IO[str], timeout: float) -> Any:
    """Return the next answer; None if there is none in time, {} if the process has ended."""
    with DefaultSelector() as selector:
        selector.register(answers, EVENT_READ)
        if not selector.select(timeout):
            return None
    line = answers.readline()
    return json.loads(line, parse_int=str, parse_float=str) if line else {}


def _helper_failure(name: str, process: subprocess.Popen[str]) -> str:
    answer = _line(process.stdout, 0) if process.stdout is not None else None
    if answer and "error" in answer:
        return f"the helper {name}: {answer['error']}"
    if answer == {} or process.poll() is not None:
        return f"the process of the helper {name} has ended"
    return ""


def _end_of(process: subprocess.Popen[str]) -> str:
    """Return how a process has ended that does not answer any more."""
    try:
        status = process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        return "has not answered: it has closed the files of its process"
    if status < 0:
        name = signal.strsignal(-status) or "unknown"
        return f"has not answered: signal {-status} ({name}) has ended its process"
    return (
        f"has ended its process with exit status {status}, as sys.exit() does; a function must"
        " return a value"
    )


def _write(process: subprocess.Popen[str], text: str) -> bool:
    if process.stdin is None:
        return False
    try:
        process.stdin.write(text + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        return False
    return True


def _import(name: str) -> str:
    return f'{{"function": {json.dumps(name)}}}'


def _call(name: str, argument: str) -> str:
    return f'{{"function": {json.dumps(name)}, "argument": {argument}}}'
