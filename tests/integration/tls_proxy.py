"""A server in front of Cassandra that speaks TLS with any certificate."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

from tests.certificates import Certificate


@contextmanager
def tls_in_front_of(
    target: tuple[str, int], shown: Certificate, directory: Path
) -> Iterator[tuple[str, int]]:
    """Yield the address of a server that shows a certificate, and passes on what it decrypts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.pem(directory / "proxy.pem"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=_serve, args=(server, context, target), daemon=True).start()
        try:
            yield server.getsockname()
        finally:
            # Closing it alone would not wake up who waits in it.
            server.shutdown(socket.SHUT_RDWR)


def _serve(server: socket.socket, context: ssl.SSLContext, target: tuple[str, int]) -> None:
    with suppress(OSError):
        while True:
            client, _ = server.accept()
            Thread(target=_pass_on, args=(client, context, target), daemon=True).start()


def _pass_on(client: socket.socket, context: ssl.SSLContext, target: tuple[str, int]) -> None:
    with (
        client,
        suppress(OSError),
        context.wrap_socket(client, server_side=True) as decrypted,
        socket.create_connection(target) as server,
    ):
        Thread(target=_copy, args=(server, decrypted), daemon=True).start()
        _copy(decrypted, server)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
