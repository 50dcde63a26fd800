"""The embedded Cassandra: the real server as a child process with its own ports and data."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from embedded.cassandra import node, roles
from embedded.errors import EmbeddedError
from embedded.machine import ports, processes, secrets_file, state_dir
from embedded.progress import Progress

PORT_VARIABLE = "TIDEMARK_CASSANDRA_PORT"

_NAME = "cassandra"
_DEADLINE_S = 180.0
_POLL_S = 0.5


@dataclass(frozen=True)
class Endpoint:
    """Where the server listens and who may log in."""

    host: str
    port: int
    username: str
    password: str = field(repr=False)

    def environment(self) -> dict[str, str]:
        """Return the variables from which the applications read their connection."""
        return {
            "TIDEMARK_CASSANDRA_HOSTS": f"{self.host}:{self.port}",
            "TIDEMARK_CASSANDRA_USERNAME": self.username,
            "TIDEMARK_CASSANDRA_PASSWORD": self.password,
        }


class Cassandra:
    """One Cassandra node below one home directory.

    Args:
        home: Data, configuration, logs, password and pid of the node.
        port: The client port; by default `TIDEMARK_CASSANDRA_PORT`, else a free one.
        min_free_bytes: Free space on the disk of `home` below which the node is not started.
    """

    def __init__(
        self, home: Path, port: int | None = None, min_free_bytes: int = state_dir.GIB
    ) -> None:
        """Store the arguments; nothing is started or written yet."""
        self._home = home.resolve()
        self._run = self._home / "run"
        self._ports_file = self._home / "ports.json"
        self._port = port or ports.pinned(PORT_VARIABLE)
        self._min_free_bytes = min_free_bytes

    def start(self) -> Endpoint:
        """Start the node unless it runs already, and return once a login succeeds.

        On the first start the role `tidemark` is made and the default role closed. Whatever ends
        the call early, Ctrl-C included, no process is left behind.

        Raises:
            EmbeddedError: The disk is full, the pinned port is taken, or the server died.
        """
        with state_dir.one_starter(self._home):
            if running := self.endpoint():
                # Whoever started it may have been killed before it was ready.
                self._wait_for_login(running, Progress(_NAME))
                return running
            state_dir.keep_private(self._home)
            state_dir.require_space(self._home, self._min_free_bytes)
            chosen = ports.choose(
                self._ports_file,
                ("native", "storage"),
                {"native": self._port} if self._port else {},
            )
            command = node.prepare(self._home, chosen)
            try:
                return self._launch(command, chosen["native"])
            except BaseException:
                self.stop()
                raise

    def stop(self) -> bool:
        """End the node in order: SIGTERM, and SIGKILL if it has not gone after a minute.

        Returns:
            Whether it was running.
        """
        return bool(processes.stop([_NAME], self._run))

    def endpoint(self) -> Endpoint | None:
        """Return where the node listens; None when it does not run."""
        native = ports.read(self._ports_file).get("native")
        if native is None or not processes.running(_NAME, self._run):
            return None
        return Endpoint(ports.HOST, native, roles.USERNAME, self._password())

    def _launch(self, command: list[str], port: int) -> Endpoint:
        for log in (node.output_file(self._home), self._home / "logs" / "system.log"):
            log.unlink(missing_ok=True)
        progress = Progress(_NAME)
        progress.update(f"starting on port {port}")
        processes.start(
            _NAME,
            command,
            self._run,
            log=node.output_file(self._home),
            environment=os.environ,
            cwd=self._home,
        )
        endpoint = Endpoint(ports.HOST, port, roles.USERNAME, self._password())
        self._wait_for_login(endpoint, progress)
        progress.done(f"ready on {endpoint.host}:{endpoint.port}")
        return endpoint

    def _wait_for_login(self, endpoint: Endpoint, progress: Progress) -> None:
        while True:
            if not processes.running(_NAME, self._run):
                raise self._failure("Cassandra died while starting")
            if progress.elapsed > _DEADLINE_S:
                raise self._failure(f"Cassandra gave no login within {_DEADLINE_S:.0f} s")
            if roles.log_in(endpoint.host, endpoint.port, endpoint.password):
                return
            progress.update(f"waiting for a login, {self._last_step()}")
            time.sleep(_POLL_S)

    def _failure(self, what: str) -> EmbeddedError:
        log = node.log_file(self._home)
        return EmbeddedError(
            what, str(log), "its last lines are below", detail=processes.log_tail(log)
        )

    def _last_step(self) -> str:
        line = processes.log_tail(node.log_file(self._home), 1).rpartition(" - ")[2]
        return f"log: {line.strip()[:70]}" if line.strip() else "JVM is starting"

    def _password(self) -> str:
        return secrets_file.keep(self._home / "password")
