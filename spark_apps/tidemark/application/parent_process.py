"""A watch on the parent process: under spark-submit, the JVM that Airflow kills.

Killing spark-submit ends the JVM only. Work through Spark then fails at once, but work by the
Python driver alone would go on to its end, beside the run that replaces it.
"""

from __future__ import annotations

import os
import signal
import threading

_POLL_S = 0.5


def end_with_parent() -> None:
    """Send this process SIGTERM when its JVM has ended, if it runs under spark-submit.

    A change of the parent process id shows that the JVM has ended. Outside of spark-submit nothing
    is watched, because the JVM is a child process there.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        threading.Thread(target=_watch, args=(os.getppid(),), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    never = threading.Event()
    while os.getppid() == parent:
        never.wait(_POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)
