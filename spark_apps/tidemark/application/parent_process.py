"""The end of the process that started us: under spark-submit, the JVM that Airflow kills.

Killing spark-submit ends the JVM only. What works through Spark fails at once; what works by the
Python driver alone would go on to its end, beside the run that takes its place.
"""

from __future__ import annotations

import os
import signal
import threading

_POLL_S = 0.5


def end_with_parent() -> None:
    """Under spark-submit, send this process SIGTERM when its JVM has ended.

    An orphan is given another parent, which is how it is seen. Outside of spark-submit nothing is
    watched: there the JVM is a child.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        threading.Thread(target=_watch, args=(os.getppid(),), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    never = threading.Event()
    while os.getppid() == parent:
        never.wait(_POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)
