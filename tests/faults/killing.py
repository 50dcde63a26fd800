"""Functions that kill an application at a seam and wait until its locks have expired."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.faults.seams import Seam
from tests.integration.support import ROOT, Journal, wait_until

_CRASH = Path(__file__).parent / "crash.py"


def start_until(
    journal: Journal,
    seam: Seam,
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
    where = seam.name if ends is None else f"{seam.name}@{ends}"
    script = str(ROOT / "spark_apps" / f"{application}.py")
    return journal.start(_CRASH, where, script, *arguments, **variables)


def kill_after(
    journal: Journal, seam: Seam, application: str, *arguments: str, **variables: str
) -> None:
    """Kill an application right after a seam, and wait until its locks have expired."""
    process = start_until(journal, seam, application, *arguments, ends=None, **variables)
    _, stderr = process.communicate()
    assert process.returncode == -signal.SIGKILL, stderr
    wait_for_locks(journal)


def wait_for_locks(journal: Journal) -> None:
    """Wait until the locks of a dead run have expired."""
    wait_until("the dead run's locks to expire", lambda: not journal.own_rows("lock"))
