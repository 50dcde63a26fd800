"""Servers in front of Cassandra: with any certificate, far away, and one that can be closed."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from tests.certificates import Certificate

Address = tuple[str, int]
Opened = Callable[[socket.socket], AbstractContextManager[socket.socket]]


@contextmanager
def tls_in_front_of(target: Address, shown: Certificate, directory: Path) -> Iterator[Address]:
    """Yield the address of a server that shows a certificate, and passes on what it decrypts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.pem(directory / "proxy.pem"))
    with _in_front_of(target, partial(context.wrap_socket, server_side=True), 0.0) as address:
        yield address


@contextmanager
def far_from(target: Address, round_trip: float) -> Iterator[Address]:
    """Yield the address of a server that passes all on, so many seconds later both ways taken."""
    with _in_front_of(target, nullcontext, round_trip / 2) as address:
        yield address


class Gate:
    """A server that passes all on to another one until it is closed; it may be opened again."""

    def __init__(self, address: Address, target: Address) -> None:
        """Store the addresses; nobody listens yet."""
        self._address, self._target = address, target
        self._passing: set[socket.socket] = set()

    def open(self, delay: float = 0.0) -> None:
        """Listen; what comes is passed on so many seconds later."""
        self._server = socket.create_server(self._address)
        serve(self._server, partial(_pass_on, self._target, self._passed, delay))

    def close(self) -> None:
        """End all connections; further ones are refused."""
        for connection in [self._server, *self._passing]:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.close()

    @contextmanager
    def _passed(self, client: socket.socket) -> Iterator[socket.socket]:
        self._passing.add(client)
        try:
            yield client
        finally:
            self._passing.remove(client)


@contextmanager
def _in_front_of(target: Address, opened: Opened, delay: float) -> Iterator[Address]:
    with listening(partial(_pass_on, target, opened, delay)) as address:
        yield address


@contextmanager
def listening(pass_on: Callable[[socket.socket], None]) -> Iterator[Address]:
    """Yield the address of a server that gives each connection to a thread of its own."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        serve(server, pass_on)
        try:
            yield server.getsockname()
        finally:
            # Closing it alone would not wake up who waits in it.
            server.shutdown(socket.SHUT_RDWR)


def serve(server: socket.socket, pass_on: Callable[[socket.socket], None]) -> None:
    """Begin to accept connections, until the server is shut down."""

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                Thread(target=pass_on, args=(client,), daemon=True).start()

    Thread(target=accept, daemon=True).start()


def _pass_on(target: Address, opened: Opened, delay: float, client: socket.socket) -> None:
    with (
        client,
        suppress(OSError),
        opened(client) as plain,
        socket.create_connection(target) as server,
    ):
        Thread(target=_copy, args=(server, plain, delay), daemon=True).start()
        _copy(plain, server, delay)


def _copy(source: socket.socket, target: socket.socket, delay: float) -> None:
    """Pass all on, each part so many seconds after it came; many parts are on their way at once."""
    parts: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
    sending = Thread(target=_send, args=(parts, target), daemon=True)
    sending.start()
    with suppress(OSError):
        while data := source.recv(1 << 16):
            parts.put((time.monotonic() + delay, data))
    parts.put((0.0, b""))
    sending.join()


def _send(parts: SimpleQueue[tuple[float, bytes]], target: socket.socket) -> None:
    with suppress(OSError):
        while data := (due := parts.get())[1]:
            time.sleep(max(0.0, due[0] - time.monotonic()))
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
