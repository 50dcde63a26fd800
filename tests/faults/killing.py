"""Functions that kill or suspend an application at a seam, and take its locks as time would."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import psutil

from tests.faults.seams import Seam
from tests.integration.support import ROOT, Journal, wait_until
from tidemark.cassandra.schema import table

_CRASH = Path(__file__).parent / "crash.py"
Where = Seam | tuple[Seam, int]
"""A seam; with a number, where it has been passed so often."""


def start_until(
    journal: Journal,
    seam: Where,
    application: str,
    *arguments: str,
    ends: int | None = None,
    **variables: str,
) -> subprocess.Popen[str]:
    """Start an application that is killed right after a seam.

    Args:
        journal: the journal that the application works on.
        seam: the seam at which the application is killed.
        application: the name of the application's script, such as `tag_write`.
        arguments: the application's arguments.
        ends: the pid of another process that is ended at the seam instead.
        variables: TIDEMARK_ settings of this run only.
    """
    passed, calls = (seam, 1) if isinstance(seam, Seam) else seam
    where = f"{passed.name}*{calls}" + ("" if ends is None else f"@{ends}")
    script = str(ROOT / "spark_apps" / f"{application}.py")
    return journal.start(_CRASH, where, script, *arguments, **variables)


def suspend_before(
    journal: Journal, seam: Seam, application: str, *arguments: str, **variables: str
) -> subprocess.Popen[str]:
    """Start an application, and wait until it has been suspended right before a seam."""
    return _suspend(journal, f"{seam.name}!", application, *arguments, **variables)


def suspend_sending(
    journal: Journal, seam: Seam, application: str, *arguments: str
) -> subprocess.Popen[str]:
    """Suspend an application as `suspend_before` does; nothing stops what it sends at the seam."""
    return _suspend(journal, f"{seam.name}!!", application, *arguments)


def _suspend(
    journal: Journal, where: str, application: str, *arguments: str, **variables: str
) -> subprocess.Popen[str]:
    script = str(ROOT / "spark_apps" / f"{application}.py")
    process = journal.start(_CRASH, where, script, *arguments, **variables)
    state = psutil.Process(process.pid).status

    def is_suspended() -> bool:
        assert process.poll() is None, process.communicate()
        return state() == psutil.STATUS_STOPPED

    try:
        wait_until(f"{application} to reach {where}", is_suspended, deadline_s=300)
    except BaseException:
        _kill(process)
        raise
    return process


def wake(process: subprocess.Popen[str]) -> str:
    """Let a suspended application run on to its end; return what it has told on stderr."""
    os.killpg(process.pid, signal.SIGCONT)
    return process.communicate()[1]


def kill_behind(process: subprocess.Popen[str], line: str, after_s: float) -> bool:
    """Kill a process and its group `after_s` seconds after it printed a line with these words.

    Returns:
        whether it was still running.

    Raises:
        AssertionError: it has printed no such line.
    """
    assert process.stderr is not None
    before = []
    for told in process.stderr:
        before.append(told)
        if line in told:
            break
    else:
        process.communicate()
        raise AssertionError(f"no line with {line!r}: {''.join(before)}")
    # The moment of the kill is the test's input; nothing is waited for.
    threading.Event().wait(after_s)
    _kill(process)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def _kill(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def kill_after(
    journal: Journal, seam: Where, application: str, *arguments: str, **variables: str
) -> None:
    """Kill an application right after a seam, and remove its locks as their expiry would."""
    process = start_until(journal, seam, application, *arguments, ends=None, **variables)
    _, stderr = process.communicate()
    assert process.returncode == -signal.SIGKILL, stderr
    expire_locks(journal)


def end_after(
    journal: Journal, seam: Seam, application: str, *arguments: str
) -> tuple[int, str, str]:
    """Send SIGTERM to an application right after a seam; return its status and what it wrote."""
    script = str(ROOT / "spark_apps" / f"{application}.py")
    process = journal.start(_CRASH, f"{seam.name}~", script, *arguments)
    stdout, stderr = process.communicate()
    return process.returncode, stdout, stderr


def expire_locks(journal: Journal) -> None:
    """Remove the locks of a dead run; that they expire is seen where `wait_for_locks` is used."""
    cql = f"DELETE FROM {table(journal.own_keyspace, 'lock')} WHERE resource = ? IF EXISTS"
    for row in journal.own_rows("lock"):
        journal.control.execute(cql, [row["resource"]])
    assert journal.own_rows("lock") == []


def wait_for_locks(journal: Journal) -> None:
    """Wait until the locks of a dead run have expired."""
    wait_until(
        "the dead run's locks to expire", lambda: not journal.own_rows("lock"), deadline_s=120
    )
