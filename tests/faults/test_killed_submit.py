"""An application that works by the Python driver alone ends with its spark-submit's JVM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from tests.integration.support import ROOT, Journal, wait_until
from tidemark.cassandra.schema import create_own_tables

WORK = """
import threading
from tidemark.application.frame import run_application
from tidemark.ledger.locks import Locks

def work(run):
    own = run.settings.keyspace
    with Locks(run.control, own, ["endless"], owner=run.owner, run_id="r", ttl=600):
        while True:
            run.control.execute(f"SELECT owner FROM {own}.lock")

run_application("endless", work)
"""


def test_python_ends_in_order_when_airflow_kills_the_jvm(journal: Journal, tmp_path: Path) -> None:
    """SparkSubmitHook.on_kill sends SIGKILL to spark-submit, of which Python is a child."""
    create_own_tables(journal.control, journal.settings())
    script = tmp_path / "endless.py"
    script.write_text(WORK)
    submit = Path(sys.executable).with_name("spark-submit")
    environment = {**os.environ, **journal.environment, "PYTHONPATH": str(ROOT / "spark_apps")}
    jvm = subprocess.Popen(
        [str(submit), "--master", "local[1]", str(script)],
        env={**environment, "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until("the lock to be taken", lambda: bool(journal.own_rows("lock")))
        [lock] = journal.own_rows("lock")
        # The lock's owner is host:pid:run; the JVM may have other children for a moment.
        python = psutil.Process(int(lock["owner"].split(":")[1]))
        assert python.ppid() == jvm.pid
        jvm.kill()
        jvm.wait()
        wait_until("the lock to be given back", lambda: not journal.own_rows("lock"))
        wait_until("its process to end", lambda: not python.is_running())
    finally:
        with suppress(ProcessLookupError):
            os.killpg(jvm.pid, signal.SIGKILL)
        jvm.wait()
