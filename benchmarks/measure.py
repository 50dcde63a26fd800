"""What a command costs: wall time, CPU time of its process tree and of a server, peak memory."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psutil

_SAMPLE_S = 0.1


@dataclass(frozen=True)
class Cost:
    """The cost of one command.

    Attributes:
        wall_s: from start to end, start-up of Python, Java and Spark included.
        client_cpu_s: user and system time of the process and all its children.
        server_cpu_s: what Cassandra, or another server, used meanwhile.
        peak_mib: highest resident size of the process tree, in MiB.
        programs: names of the programs in the process tree, such as java.
        report: the last line of its output, decoded.
    """

    wall_s: float
    client_cpu_s: float
    server_cpu_s: float
    peak_mib: float
    programs: frozenset[str]
    report: dict[str, Any]

    def per_second(self, rows: int) -> float:
        """Return the rows per second of wall time."""
        return rows / self.wall_s

    def per_cpu_second(self, rows: int) -> float:
        """Return the rows per second of CPU, client and server together."""
        return rows / (self.client_cpu_s + self.server_cpu_s)


def measure(command: Sequence[str], environment: Mapping[str, str], server: psutil.Process) -> Cost:
    """Run a command to its end.

    Raises:
        RuntimeError: it ended with another status than 0; the text holds its error output.
    """
    server_before = tree_cpu_seconds(server)
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    sampler = _Sampler(process.pid)
    stdout, stderr = process.communicate()
    wall = time.monotonic() - started
    sampler.stop()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{stderr}")
    return Cost(
        wall,
        sampler.cpu_s,
        tree_cpu_seconds(server) - server_before,
        sampler.peak_bytes / 2**20,
        frozenset(sampler.programs),
        json.loads(stdout.splitlines()[-1]),
    )


class _Sampler:
    """Adds up a process tree while it lives: a JVM that nobody waits for is in no rusage."""

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
        self.programs: set[str] = set()
        self._seconds: dict[int, float] = {}
        self._root = psutil.Process(pid)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    @property
    def cpu_s(self) -> float:
        """The sum over all processes seen, each as it was last seen."""
        return sum(self._seconds.values())

    def stop(self) -> None:
        """End the sampling."""
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            resident = 0
            try:
                tree = [self._root, *self._root.children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            for process in tree:
                try:
                    self._seconds[process.pid] = cpu_seconds(process)
                    resident += process.memory_info().rss
                    self.programs.add(process.name())
                except psutil.NoSuchProcess:
                    continue
            self.peak_bytes = max(self.peak_bytes, resident)


def cpu_seconds(process: psutil.Process) -> float:
    """Return the user and system time of a process."""
    times = process.cpu_times()
    return float(times.user + times.system)


def tree_cpu_seconds(root: psutil.Process) -> float:
    """Return the CPU time of a process and of all its children, also of those that have ended.

    The processes of PostgreSQL's sessions, which end with them, count for the server.
    """
    total = 0.0
    for process in [root, *root.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
