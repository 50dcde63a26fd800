"""Free ports: chosen once, remembered, and checked before each start."""

from __future__ import annotations

import errno
import json
import os
import random
import socket
from pathlib import Path

import psutil

from embedded.errors import EmbeddedError

HOST = "127.0.0.1"

_LAST_PORT = 65535
# Below the range that Linux hands to outgoing connections, so that nobody takes a port by chance.
_RANGE = range(20000, 32000)


def choose(remembered: Path, names: tuple[str, ...], prescribed: dict[str, int]) -> dict[str, int]:
    """Return a free port for each name and remember them.

    Args:
        remembered: JSON file of earlier choices; a choice that is still free is kept.
        names: What the ports are for.
        prescribed: Ports that must be these and no others.

    Raises:
        EmbeddedError: A prescribed port is taken.
    """
    for port in prescribed.values():
        require_free(port)
    earlier = read(remembered)
    ports = dict(prescribed)
    for name in names:
        if name not in ports:
            ports[name] = _keep_or_draw(earlier.get(name), set(ports.values()))
    remembered.parent.mkdir(parents=True, exist_ok=True)
    remembered.write_text(json.dumps(ports), encoding="utf-8")
    return ports


def read(remembered: Path) -> dict[str, int]:
    """Return the remembered ports by name; empty when there are none."""
    try:
        ports: dict[str, int] = json.loads(remembered.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return ports


def pinned(variable: str) -> int | None:
    """Return the port that an environment variable prescribes, if it does.

    Raises:
        EmbeddedError: The value is no port.
    """
    text = os.environ.get(variable)
    if not text:
        return None
    if not (text.isdecimal() and 0 < int(text) <= _LAST_PORT):
        raise EmbeddedError(f"{text!r} is no port", variable, f"give 1 to {_LAST_PORT}")
    return int(text)


def require_free(port: int) -> None:
    """Refuse a port on which somebody listens.

    Raises:
        EmbeddedError: Says which port and, where the system tells, which process has it.
    """
    if not _is_free(port):
        raise EmbeddedError(
            f"port {port} is already in use{_holder(port)}",
            f"{HOST}:{port}",
            "stop that process or choose another port",
        )


def _keep_or_draw(port: int | None, taken: set[int]) -> int:
    while port is None or port in taken or not _is_free(port):
        port = random.choice(_RANGE)  # noqa: S311 - a port is no secret
    return port


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: a closed connection that still lingers does not make a port busy.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise EmbeddedError(
                f"port {port} cannot be used ({error.strerror})", f"{HOST}:{port}", "choose another"
            ) from error
    return True


def _holder(port: int) -> str:
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return ""
    for connection in connections:
        listening = connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,)
        if listening and connection.pid:
            return f" by pid {connection.pid} ({psutil.Process(connection.pid).name()})"
    return ""
