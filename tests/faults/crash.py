"""A runner that kills an application, Spark's JVM included, right after a seam (`seams.py`).

Usage: `crash.py SEAM SCRIPT ARGUMENT...`, in a process group of its own. When the seam's function
has returned, the whole process group gets SIGKILL; with SEAM*CALLS, when it has returned so often.
With SEAM@PID, the process PID gets SIGTERM instead (killed, it would lose its last ten seconds),
and the application goes on without it. With SEAM! the process group gets SIGSTOP, right before the
function is called; with SEAM!!, nothing stops what it sends then. With SEAM~ the process itself
gets SIGTERM when the function has returned.
"""

from __future__ import annotations

import functools
import itertools
import os
import runpy
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil


def kill_after(target: str) -> None:
    """Replace the seam's function by one that calls it and then kills the process group."""
    from tests.faults.seams import Seam
    from tidemark.context import RunContext

    where, _, pid = target.partition("@")
    seam, _, calls = where.rstrip("!~").partition("*")
    owner, name = Seam[seam].place()
    if target.endswith("!!"):
        patch.object(RunContext, "stop_jobs").start()
    function = getattr(owner, name)
    passed = itertools.count(1)

    @functools.wraps(function)
    def and_die(*args: Any, **kwargs: Any) -> Any:
        if target.endswith("!"):
            setattr(owner, name, function)
            os.killpg(0, signal.SIGSTOP)
            return function(*args, **kwargs)
        result = function(*args, **kwargs)
        if target.endswith("~"):
            signal.raise_signal(signal.SIGTERM)
        if next(passed) < int(calls or 1):
            return result
        if pid:
            setattr(owner, name, function)
            end(psutil.Process(int(pid)))
        else:
            os.killpg(0, signal.SIGKILL)
        return result

    setattr(owner, name, and_die)


def end(process: psutil.Process) -> None:
    """Send SIGTERM, and wait until the process is gone or a zombie of its parent."""
    process.terminate()
    with suppress(psutil.NoSuchProcess):
        while process.status() != psutil.STATUS_ZOMBIE:
            with suppress(psutil.TimeoutExpired):
                process.wait(0.2)


if __name__ == "__main__":
    _, where, script, *arguments = sys.argv
    sys.path[:0] = [str(Path(script).parent), str(Path(__file__).resolve().parents[2])]
    kill_after(where)
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")
