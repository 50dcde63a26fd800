"""Child processes that are stopped by pid and never mistaken for another process.

A pid alone is not enough: the system gives it to somebody else when the process has ended. Each
process is recorded with the tick of its start and the boot this tick counts from, which together
name one process for ever (source: proc(5), `starttime`).

What such a process starts in turn is found by descent, and by a variable in its environment where
its parent has died. Both are needed: Airflow's workers overwrite their environment with their
title, and a Spark JVM outlives the task that started it.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pwd
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

_MARKER = "TIDEMARK_EMBEDDED_PROCESS"
_ENDING_S = 0.05
_DEAD = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
_BOOT = Path("/proc/sys/kernel/random/boot_id")

# Popen objects of this process, kept so that their exit status is collected.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True)
class Recorded:
    """A process as its record file has it."""

    name: str
    pid: int
    started_tick: int
    boot: str

    def find(self) -> psutil.Process | None:
        """Return the process, or None when it has ended, whoever has its pid now."""
        if (self.started_tick, self.boot) != _identity(self.pid):
            return None
        try:
            process = psutil.Process(self.pid)
            return None if process.status() in _DEAD else process
        except psutil.NoSuchProcess:
            return None


@atexit.register
def _let_live() -> None:
    """Leave the children that run: they outlive us on purpose, of which Popen would warn."""
    for child in _children.values():
        child.returncode = child.returncode or 0


def start(
    name: str,
    command: Sequence[str | Path],
    run_directory: Path,
    *,
    log: Path,
    environment: Mapping[str, str],
    cwd: Path,
    user: str | None = None,
) -> Recorded:
    """Start a process of its own session and record it in `run_directory/<name>.json`.

    `user` is the name of its user, with no group but that user's; None for the user of this
    process.

    A session of its own keeps a Ctrl-C in the terminal from the child: whoever started it decides
    whether it has to end.
    """
    run_directory.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        child = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**environment, _MARKER: _mark(name, run_directory)},
            start_new_session=True,
            **as_user(user),
        )
    _children[child.pid] = child
    try:
        recorded = record(name, child.pid, run_directory)
    except BaseException:
        child.kill()
        raise
    return recorded


def as_user(name: str | None) -> dict[str, Any]:
    """Return the arguments of Popen for a process of a user; None is the user of this process."""
    if name is None:
        return {}
    return {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": []}


def record(name: str, pid: int, run_directory: Path) -> Recorded:
    """Write down a running process, so that a later call can find and stop it."""
    tick, boot = _identity(pid)
    recorded = Recorded(name, pid, tick, boot)
    path = run_directory / f"{name}.json"
    path.with_suffix(".new").write_text(json.dumps(asdict(recorded)), encoding="utf-8")
    os.replace(path.with_suffix(".new"), path)
    return recorded


def recorded(name: str, run_directory: Path) -> Recorded | None:
    """Read a record; None when there is none."""
    try:
        return Recorded(**json.loads((run_directory / f"{name}.json").read_text("utf-8")))
    except FileNotFoundError:
        return None


def running(name: str, run_directory: Path) -> psutil.Process | None:
    """Return the recorded process if it still runs."""
    record = recorded(name, run_directory)
    return record.find() if record else None


def all_recorded(state: Path) -> dict[Path, list[str]]:
    """List the records below a state directory: run directory of each home to its names.

    Airflow comes before the Cassandra that its tasks may still write to.
    """
    names: dict[Path, list[str]] = {}
    for path in sorted(state.glob("*/run/*.json")):
        names.setdefault(path.parent, []).append(path.stem)
    return names


def stop(names: Sequence[str], run_directory: Path, *, patience: float = 60.0) -> list[str]:
    """End recorded processes and what they have started: SIGTERM, wait, then SIGKILL.

    Args:
        names: Records to end, all at once.
        run_directory: Where the records are.
        patience: Seconds between SIGTERM and SIGKILL; what the processes have started gets a
            quarter of it, since a scheduler waits for its tasks, however long they take.

    Returns:
        The names that were still running.
    """
    processes = {name: process for name in names if (process := running(name, run_directory))}
    roots = list(processes.values())
    family = _family(roots, {_mark(name, run_directory) for name in names})
    _terminate([*roots, *family])
    _kill(_wait(family, patience / 4))
    _kill(_wait(roots, patience))
    for name in names:
        (run_directory / f"{name}.json").unlink(missing_ok=True)
    return list(processes)


def forget(name: str, run_directory: Path) -> int:
    """Drop the record of a child of this process that has ended; return its exit status."""
    record = recorded(name, run_directory)
    (run_directory / f"{name}.json").unlink(missing_ok=True)
    child = _children.pop(record.pid, None) if record else None
    return child.wait() if child else 0


def log_tail(log: Path, lines: int = 15) -> str:
    """Return the end of a log for an error message, indented."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])


def _identity(pid: int) -> tuple[int, str]:
    """Return (start tick, boot id); (-1, "") when no such process exists."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The second field is the command in parentheses and may hold spaces itself.
        return int(stat.rpartition(")")[2].split()[19]), _BOOT.read_text("utf-8").strip()
    except (FileNotFoundError, ProcessLookupError):
        return -1, ""


def _mark(name: str, run_directory: Path) -> str:
    return str(run_directory.resolve() / name)


def _family(roots: list[psutil.Process], marks: set[str]) -> list[psutil.Process]:
    """Find what the roots started, directly or not, and what is left of roots that have ended."""
    members = {process.pid: process for process in _marked(marks)}
    for root in roots:
        with contextlib.suppress(psutil.NoSuchProcess):
            members.update({child.pid: child for child in root.children(recursive=True)})
    for root in roots:
        members.pop(root.pid, None)
    return list(members.values())


def _marked(marks: set[str]) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.environ().get(_MARKER) in marks:
                yield process


def _terminate(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    _wait(processes, 10.0)


def _wait(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Wait until all have ended; return those that have not."""
    alive, until = processes, time.monotonic() + seconds
    while alive and time.monotonic() < until:
        try:
            _, alive = psutil.wait_procs(alive, timeout=max(until - time.monotonic(), 0))
        except OSError:
            # Linux refuses to watch a process that is just ending (pidfd_open, EINVAL), and psutil
            # passes that on. A moment later it has ended.
            time.sleep(_ENDING_S)
            alive = _still_running(alive)
    for pid in [pid for pid, child in _children.items() if child.poll() is not None]:
        del _children[pid]
    return _still_running(alive)


def _still_running(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if process.is_running() and not _is_zombie(process)]


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return process.status() in _DEAD
    except psutil.NoSuchProcess:
        return True
