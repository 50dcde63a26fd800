from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from embedded.machine import processes

IGNORES_TERM = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); {} time.sleep(99)"
)
READY = "open({!r}, 'w').close();"


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """Somebody else's process."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)"]) as process:
        yield process
        process.kill()


def wait_for(condition: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.02)


def start(run: Path, code: str, name: str = "server") -> processes.Recorded:
    log = run.parent / "log"
    return processes.start(
        name, [sys.executable, "-c", code], run, log=log, environment=os.environ, cwd=run.parent
    )


def test_stop_ends_a_process_and_forgets_it(tmp_path: Path) -> None:
    run = tmp_path / "home" / "run"
    run.mkdir(parents=True)
    recorded = start(run, "import time; time.sleep(99)")
    assert processes.all_recorded(tmp_path) == {run: ["server"]}

    assert processes.stop(["server"], run) == ["server"]

    assert not psutil.pid_exists(recorded.pid)
    assert processes.all_recorded(tmp_path) == {}
    assert processes.stop(["server"], run) == []


def test_stop_kills_a_process_that_ignores_sigterm(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    recorded = start(tmp_path / "run", IGNORES_TERM.format(READY.format(str(ready))))
    wait_for(ready.exists)

    processes.stop(["server"], tmp_path / "run", patience=0.2)

    assert not psutil.pid_exists(recorded.pid)


def test_stop_waits_for_a_process_that_cannot_be_watched_while_it_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Linux refuses pidfd_open of such a process with EINVAL, and psutil passes that on."""
    wait_procs, refusals = psutil.wait_procs, [OSError(errno.EINVAL, "Invalid argument")]

    def refused_once(*arguments: Any, **options: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return wait_procs(*arguments, **options)

    recorded = start(tmp_path / "run", "import time; time.sleep(99)")
    monkeypatch.setattr(psutil, "wait_procs", refused_once)
    assert processes.stop(["server"], tmp_path / "run") == ["server"]
    assert not refusals
    assert not psutil.pid_exists(recorded.pid)


def test_stop_never_touches_a_process_that_got_a_recorded_pid(
    tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    recorded = processes.record("server", bystander.pid, tmp_path)
    file = tmp_path / "server.json"
    content = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps({**content, "started_tick": recorded.started_tick - 1}), "utf-8")

    assert processes.running("server", tmp_path) is None
    assert processes.stop(["server"], tmp_path) == []
    assert bystander.poll() is None


def test_stop_never_touches_a_process_of_another_boot(
    tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    processes.record("server", bystander.pid, tmp_path)
    file = tmp_path / "server.json"
    content = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps({**content, "boot": "another"}), "utf-8")

    assert processes.stop(["server"], tmp_path) == []
    assert bystander.poll() is None


def test_stop_ends_what_the_process_left_behind(tmp_path: Path) -> None:
    """A grandchild of its own session, whose parent has died, is nobody's child any more."""
    pid_file = tmp_path / "pid"
    child = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(99)"
    parent = (
        "import subprocess, sys;"
        f"subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)"
    )
    recorded = start(tmp_path / "run", parent)
    wait_for(lambda: pid_file.exists() and pid_file.read_text("utf-8"))
    wait_for(lambda: recorded.find() is None)
    orphan = psutil.Process(int(pid_file.read_text("utf-8")))

    assert processes.stop(["server"], tmp_path / "run") == []

    wait_for(lambda: not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE)
