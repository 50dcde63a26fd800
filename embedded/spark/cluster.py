"""A Spark cluster on this machine: a standalone master and its workers, as on several machines.

Each worker has an address, a directory and an environment of its own, and nothing of the
applications on its paths: what its executors have is what the driver sends them.
"""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import psutil
import pyspark

from embedded.errors import EmbeddedError
from embedded.machine import ports, processes, state_dir
from embedded.machine.java import java_home
from embedded.machine.readiness import Readiness
from embedded.progress import ProgressLine

_MASTER = "master"
WORKERS = {"worker-1": "127.0.0.2", "worker-2": "127.0.0.3"}
"""The address of each."""
_MEMORY = "2g"
"""What each worker gives to executors."""
_CLASSES = "org.apache.spark.deploy"
_ANSWER_S = 5


class SparkCluster:
    """A master and workers below one home directory.

    Args:
        home: Logs, pids, and the directories in which the workers' executors run.
        cores: Cores of each worker, whatever the machine has.
    """

    def __init__(self, home: Path, cores: int) -> None:
        """Store the arguments; nothing is started or written yet."""
        self._home = home.resolve()
        self._run = self._home / "run"
        self._ports_file = self._home / "ports.json"
        self._cores = cores

    def start(self) -> str:
        """Start what does not run of them, and return the master's URL once all are registered.

        Raises:
            EmbeddedError: A process died while starting.
        """
        with state_dir.one_starter(self._home):
            state_dir.keep_private(self._home)
            progress = ProgressLine("spark")
            try:
                if not processes.running(_MASTER, self._run):
                    self._start_master()
                self._readiness(_MASTER, "Spark's master", 0).wait(progress)
                for number, name in enumerate(WORKERS, 1):
                    self._start_worker(name)
                    self._readiness(name, f"Spark's {name}", number).wait(progress)
            except BaseException:
                self.stop()
                raise
        progress.done(f"ready on {self.url}")
        return self.url

    @property
    def url(self) -> str:
        """Return the master's URL, for `--master`."""
        return f"spark://{ports.HOST}:{ports.read(self._ports_file)['master']}"

    def _start_worker(self, name: str) -> None:
        if processes.running(name, self._run):
            return
        host = WORKERS[name]
        options = ("--host", host, "--cores", str(self._cores), "--memory", _MEMORY)
        self._launch(
            name,
            host,
            ("worker.Worker", *options, "--work-dir", str(self._directory(name)), self.url),
        )

    def kill_executors(self, name: str) -> int:
        """End the executors of a worker by SIGKILL, and return how many there were."""
        executors = self._executors(name)
        for executor in executors:
            executor.kill()
        return len(executors)

    def has_executors(self, name: str) -> bool:
        """Return whether a worker runs executors at this moment."""
        return bool(self._executors(name))

    def pin(self, name: str, cpu: int) -> None:
        """Keep a worker and the executors that it starts on one CPU, as on a machine with one.

        Raises:
            EmbeddedError: the worker does not run.
        """
        worker = processes.running(name, self._run)
        if worker is None:
            raise EmbeddedError(f"{name} does not run", str(self._home), "start it")
        # The kernel keeps it for each thread, and new ones have it from the thread that made them.
        for thread in worker.threads():
            os.sched_setaffinity(thread.id, {cpu})

    def _executors(self, name: str) -> list[psutil.Process]:
        worker = processes.running(name, self._run)
        return [] if worker is None else worker.children()

    def stop(self) -> None:
        """End all of them; the workers first."""
        processes.stop([*WORKERS, _MASTER], self._run)

    def _start_master(self) -> None:
        chosen = ports.choose(self._ports_file, ("master", "ui"), {})
        options = ("--host", ports.HOST, "--port", str(chosen["master"]))
        self._launch(
            _MASTER, ports.HOST, ("master.Master", *options, "--webui-port", str(chosen["ui"]))
        )

    def _launch(self, name: str, host: str, command: tuple[str, ...]) -> None:
        directory = self._directory(name)
        directory.mkdir(parents=True, exist_ok=True)
        spark = Path(pyspark.__file__).parent
        main, *arguments = command
        processes.start(
            name,
            [spark / "bin" / "spark-class", f"{_CLASSES}.{main}", *arguments],
            self._run,
            log=self._log(name),
            environment={
                "JAVA_HOME": str(java_home()),
                "PATH": "/usr/bin:/bin",
                "SPARK_HOME": str(spark),
                "SPARK_LOCAL_IP": host,
                "SPARK_DAEMON_MEMORY": "256m",
                # Else a worker's UI takes a port that somebody else may have.
                "SPARK_WORKER_WEBUI_PORT": "0",
            },
            cwd=directory,
        )

    def _directory(self, name: str) -> Path:
        return self._home / name

    def _log(self, name: str) -> Path:
        return self._home / "logs" / f"{name}.log"

    def _readiness(self, name: str, title: str, workers: int) -> Readiness:
        return Readiness(
            *(name, title, self._run, "its registration"),
            lambda: self._registered() >= workers,
            lambda: self._log(name),
        )

    def _registered(self) -> int:
        """Return how many workers the master has; -1 if it does not answer."""
        address = f"http://{ports.HOST}:{ports.read(self._ports_file)['ui']}/json/"
        try:
            return int(httpx.get(address, timeout=_ANSWER_S).json()["aliveworkers"])
        except httpx.TransportError:
            return -1
