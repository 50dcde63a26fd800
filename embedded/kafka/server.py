"""The embedded Kafka: the real broker as a child process with its own ports and data."""

from __future__ import annotations

import os
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from embedded.kafka import broker
from embedded.machine import ports, processes, state_dir
from embedded.machine.readiness import Readiness
from embedded.progress import ProgressLine

PORT_VARIABLE = "TIDEMARK_KAFKA_PORT"

_NAME = "kafka"
_ANSWER_S = 2.0


class Kafka:
    """One Kafka broker below one home directory.

    Args:
        home: Data, configuration, logs and pid of the broker.
        port: The client port; by default `TIDEMARK_KAFKA_PORT`, else a free one.
        min_free_bytes: Free space on the disk of `home` below which the broker is not started.
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

    def start(self) -> str:
        """Start the broker unless it runs already, and return its address once it answers.

        Whatever ends the call early, Ctrl-C included, no process is left behind.

        Raises:
            EmbeddedError: The disk is full, the pinned port is taken, or the broker died.
        """
        with state_dir.one_starter(self._home):
            if running := self.address():
                # Whoever started it may have been killed before it was ready.
                self._readiness(running).wait(ProgressLine(_NAME))
                return running
            state_dir.keep_private(self._home)
            state_dir.require_space(self._home, self._min_free_bytes)
            chosen = ports.choose(
                self._ports_file,
                ("clients", "controller"),
                {"clients": self._port} if self._port else {},
            )
            progress = ProgressLine(_NAME)
            progress.update(f"starting on port {chosen['clients']}")
            command = broker.prepare(self._home, chosen)
            try:
                return self._launch(command, f"{ports.HOST}:{chosen['clients']}", progress)
            except BaseException:
                self.stop()
                raise

    def stop(self) -> bool:
        """End the broker in order: SIGTERM, and SIGKILL if it has not gone after a minute.

        Returns:
            Whether it was running.
        """
        return bool(processes.stop([_NAME], self._run))

    def address(self) -> str | None:
        """Return the `host:port` of its clients; None when it does not run."""
        port = ports.read(self._ports_file).get("clients")
        if port is None or not processes.running(_NAME, self._run):
            return None
        return f"{ports.HOST}:{port}"

    def _launch(self, command: list[str], address: str, progress: ProgressLine) -> str:
        log = broker.log_file(self._home)
        log.unlink(missing_ok=True)
        processes.start(_NAME, command, self._run, log=log, environment=os.environ, cwd=self._home)
        self._readiness(address).wait(progress)
        progress.done(f"ready on {address}")
        return address

    def _readiness(self, address: str) -> Readiness:
        client = AdminClient({"bootstrap.servers": address, "log_level": 0})

        def answers() -> bool:
            try:
                return bool(client.list_topics(timeout=_ANSWER_S).brokers)
            except KafkaException:
                return False

        return Readiness(
            _NAME, "Kafka", self._run, "an answer", answers, lambda: broker.log_file(self._home)
        )
