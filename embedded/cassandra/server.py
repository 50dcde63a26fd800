"""The embedded Cassandra: the real server as a child process with its own ports and data."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from embedded.cassandra import node, roles
from embedded.machine import ports, processes, secrets_file, state_dir
from embedded.machine.readiness import Readiness
from embedded.progress import ProgressLine

PORT_VARIABLE = "TIDEMARK_CASSANDRA_PORT"
PORTS = ("native", "storage")
"""Those for clients, and for the other nodes."""

_NAME = "cassandra"


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
        options: Options of cassandra.yaml in place of those of embedded/conf.
        flags: Options of the JVM after those of embedded/conf.
    """

    def __init__(
        self,
        home: Path,
        port: int | None = None,
        min_free_bytes: int = state_dir.GIB,
        options: Mapping[str, object] = MappingProxyType({}),
        flags: Sequence[str] = (),
    ) -> None:
        """Store the arguments; nothing is started or written yet."""
        self._home = home.resolve()
        self._run = self._home / "run"
        self._ports_file = self._home / "ports.json"
        self._port = port or ports.pinned(PORT_VARIABLE)
        self._min_free_bytes = min_free_bytes
        self._options, self._flags = options, flags

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
                self._readiness(running).wait(ProgressLine(_NAME))
                return running
            state_dir.keep_private(self._home)
            state_dir.require_space(self._home, self._min_free_bytes)
            chosen = ports.choose(
                self._ports_file,
                PORTS,
                {"native": self._port} if self._port else {},
            )
            command = node.prepare(self._home, chosen, self._options, self._flags)
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
        progress = ProgressLine(_NAME)
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
        self._readiness(endpoint).wait(progress)
        progress.done(f"ready on {endpoint.host}:{endpoint.port}")
        return endpoint

    def _readiness(self, endpoint: Endpoint) -> Readiness:
        return Readiness(
            _NAME,
            "Cassandra",
            self._run,
            "a login",
            lambda: roles.log_in(endpoint.host, endpoint.port, endpoint.password),
            lambda: node.log_file(self._home),
        )

    def _password(self) -> str:
        return secrets_file.keep(self._home / "password")
