"""The configuration, storage and command line of the Kafka child process.

One node is broker and controller at once (KRaft). Its storage is formatted before the first start,
by Kafka's own tool.
"""

from __future__ import annotations

import base64
import os
import subprocess
import uuid
from pathlib import Path
from string import Template

from embedded.errors import EmbeddedError
from embedded.machine import jars
from embedded.machine.java import java_home
from embedded.paths import CONF

_HEAP = "512m"
_MAIN_CLASS = "kafka.Kafka"
_FORMAT_CLASS = "kafka.tools.StorageTool"


def prepare(home: Path, ports: dict[str, int]) -> list[str]:
    """Write the configuration below `home/conf`, format the storage, and return the command to run.

    Args:
        home: The broker's directory.
        ports: `clients` for clients, `controller` for the (only) node itself.

    Raises:
        EmbeddedError: The storage cannot be formatted.
    """
    values = {
        "data": str(home / "data"),
        "clients_port": str(ports["clients"]),
        "controller_port": str(ports["controller"]),
    }
    conf = home / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    properties = conf / "server.properties"
    template = Template((CONF / "kafka-server.properties").read_text("utf-8"))
    properties.write_text(template.substitute(values), encoding="utf-8")
    if not (home / "data" / "meta.properties").exists():
        _format(home, properties)
    return [*_java(), _MAIN_CLASS, str(properties)]


def log_file(home: Path) -> Path:
    """Return the broker's log, which is all that its JVM says."""
    return home / "logs" / "server.log"


def _format(home: Path, properties: Path) -> None:
    # Joined by "=": an id that begins with "-" would be read as an option.
    cluster = f"--cluster-id={base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip('=')}"
    # A start that was killed may have left storage that is not whole.
    arguments = ["format", "--ignore-formatted", cluster, "-c", str(properties)]
    ended = subprocess.run([*_java(), _FORMAT_CLASS, *arguments], capture_output=True)
    if ended.returncode:
        said = (ended.stdout + ended.stderr).decode("utf-8", "replace").splitlines()
        raise EmbeddedError(
            "Kafka's storage cannot be formatted",
            str(home / "data"),
            "its last lines are below",
            detail="\n".join(f"    {line}" for line in said[-15:]),
        )


def _java() -> list[str]:
    return [
        str(java_home() / "bin" / "java"),
        f"-Xms{_HEAP}",
        f"-Xmx{_HEAP}",
        "-XX:+UseSerialGC",
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-UsePerfData",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS -",
        "-cp",
        os.pathsep.join(map(str, jars.fetch("kafka"))),
    ]
