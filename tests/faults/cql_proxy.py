"""A server in front of Cassandra that reads the requests, and lets faults happen to some of them.

It speaks version 4 of the native protocol, to which drivers fall back; without compression.
Source: Cassandra's doc/native_protocol_v4.spec.
"""

from __future__ import annotations

import math
import re
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from threading import Lock, Semaphore, Thread
from typing import Any, NamedTuple, Self

from tests.integration.proxies import Address, listening

_VERSION = 4
_HEADER = struct.Struct(">BBhBi")
_ERROR, _SUPPORTED, _QUERY, _RESULT, _PREPARE, _EXECUTE, _BATCH = 0, 6, 7, 8, 9, 10, 13
_PREPARED = 4
_PROTOCOL_ERROR = 0x000A
_TWICE_STREAM, _LATE_STREAM = 0x7FFE, 0x7FFD
"""Of requests that are sent once more: drivers count from 0."""
_PATIENCE_S = 60
_WRITE = re.compile(
    r"\s*(?P<verb>INSERT INTO|UPDATE|DELETE\b.*?\bFROM)\s+"
    r"\"?\w+\"?\.\"?(?P<table>\w+)",
    re.IGNORECASE | re.DOTALL,
)
_CONDITION = re.compile(r"\bIF\b", re.IGNORECASE)


class Kind(NamedTuple):
    """What a request writes: INSERT, UPDATE or DELETE of a table, perhaps as a transaction."""

    verb: str
    table: str
    is_conditional: bool


class Fault(Enum):
    """What happens to a request."""

    TIMED_OUT = "it is applied, and answered by a write timeout"
    CUT_BEFORE = "the connection is cut before it arrives"
    CUT_AFTER = "it is applied, and the connection is cut before the answer"
    TWICE = "it is sent twice"
    LATE = "it is sent once more when `send_late` is called"
    UNAVAILABLE = "it is answered by Unavailable, and so are those after it"
    OVERLOADED = "it is answered by Overloaded, and so are some after it"
    REFUSED = "it is refused as invalid, and so are those after it"
    KILLED_BEFORE = "its sender is killed before it arrives"
    KILLED_AFTER = "it is applied, and its sender is killed before the answer"

    @property
    def kills(self) -> bool:
        """Tell whether the sender is killed."""
        return self in (Fault.KILLED_BEFORE, Fault.KILLED_AFTER)

    @property
    def most(self) -> float:
        """The most requests that it happens to."""
        if self in (Fault.UNAVAILABLE, Fault.REFUSED):
            return math.inf
        # Spark's connector sends an overloaded node the same again without an end.
        return 20 if self is Fault.OVERLOADED else 1


_ERRORS = {
    Fault.TIMED_OUT: struct.pack(">ih2shii", 0x1100, 2, b"no", 6, 0, 1),
    Fault.UNAVAILABLE: struct.pack(">ih2shii", 0x1000, 2, b"no", 6, 1, 0),
    Fault.OVERLOADED: struct.pack(">ih2s", 0x1001, 2, b"no"),
    Fault.REFUSED: struct.pack(">ih15s", 0x2200, 15, b"Batch too large"),
}
_TYPES = {True: b"CAS", False: b"SIMPLE"}


@dataclass
class _Plan:
    """Which write meets a fault, counted from 1, and how often one has."""

    wanted: Kind | None
    fault: Fault
    number: int = 1
    kill: Callable[[], None] | None = None
    passed: int = 0
    hits: int = 0

    def is_met(self, writes: Sequence[Kind]) -> bool:
        """Count a request, and tell whether the fault happens to it."""
        is_wanted = self.wanted in writes
        self.passed += is_wanted
        is_met = is_wanted and self.passed >= self.number and self.hits < self.fault.most
        self.hits += is_met
        return is_met


@dataclass
class _Holding:
    """Which writes wait, and for what."""

    wanted: Kind
    wait: Callable[[], None]
    came: int = 0


@dataclass
class CqlProxy:
    """The server. What is not in a plan is passed on."""

    target: Address
    writes: list[Kind] = field(default_factory=list)
    """What the requests write, each kind once for a request."""

    def __post_init__(self) -> None:
        self._statements: dict[bytes, str] = {}
        self._guard, self._plan = Lock(), _Plan(None, Fault.TWICE)
        self._late: list[tuple[_Connection, bytes]] = []
        self._holding: _Holding | None = None
        self._listening = listening(self._pass_on)

    def __enter__(self) -> Self:
        """Begin to listen."""
        self.address = self._listening.__enter__()
        return self

    def __exit__(self, *ended_by: Any) -> None:
        """Take no more connections."""
        self._listening.__exit__(*ended_by)

    @contextmanager
    def meeting(
        self,
        fault: Fault,
        wanted: Kind,
        number: int = 1,
        kill: Callable[[], None] | None = None,
    ) -> Iterator[None]:
        """Let a fault happen to a write of a kind.

        Args:
            fault: what happens.
            wanted: the kind.
            number: which of these writes it is, from 1.
            kill: kills the sender, if the fault is to do so.

        Raises:
            AssertionError: there were not so many.
        """
        self._plan = plan = _Plan(wanted, fault, number, kill)
        try:
            yield
        finally:
            self._plan = _Plan(None, Fault.TWICE)
        assert plan.hits, f"no {wanted} met this: {fault.value}"

    @contextmanager
    def holding_every_second(self, wanted: Kind, wait: Callable[[], None]) -> Iterator[None]:
        """Pass every second write of a kind on after `wait`; writes after it do not wait for it.

        Raises:
            AssertionError: no write was held.
        """
        self._holding = holding = _Holding(wanted, wait)
        try:
            yield
        finally:
            self._holding = None
        assert holding.came > 1, f"no {wanted} was held"

    def send_late(self) -> None:
        """Send once more what met `Fault.LATE`.

        Raises:
            AssertionError: a request was not answered.
        """
        late, self._late = self._late, []
        for connection, frame in late:
            assert connection.ask_again(frame), "what was sent late was not answered"

    def _pass_on(self, client: socket.socket) -> None:
        server = socket.create_connection(self.target)
        connection = _Connection(self, client, server)
        Thread(target=connection.answer, daemon=True).start()
        connection.ask()

    def fault_of(self, writes: list[Kind]) -> Fault | None:
        """Return what happens to a request; None if nothing does."""
        with self._guard:
            self.writes += dict.fromkeys(writes)
            return self._plan.fault if self._plan.is_met(writes) else None

    def kill(self) -> None:
        """Kill the sender, as the plan says."""
        assert self._plan.kill is not None, "nobody has said how to kill the sender"
        self._plan.kill()

    def wait_of(self, writes: list[Kind]) -> Callable[[], None] | None:
        """Return what a request waits for; None if it is passed on at once."""
        with self._guard:
            holding = self._holding
            if holding is None or holding.wanted not in writes:
                return None
            holding.came += 1
            return None if holding.came % 2 else holding.wait

    def keep(self, connection: _Connection, frame: bytes) -> None:
        """Keep a request for `send_late`."""
        self._late.append((connection, frame))

    def prepared(self, statement_id: bytes, cql: str) -> None:
        """Learn which statement an id stands for."""
        self._statements[statement_id] = cql

    def cql_of(self, statement_id: bytes) -> str:
        """Return the statement of an id."""
        return self._statements[statement_id]

    def has_late(self, connection: _Connection) -> bool:
        """Tell whether something is to be sent once more on a connection."""
        return any(one is connection for one, _ in self._late)


class _Connection:
    """A client's connection, and the one to Cassandra that stands for it."""

    def __init__(self, proxy: CqlProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._preparing: dict[int, str] = {}
        self._answered: dict[int, tuple[Fault, bool]] = {}
        self._sending, self._asking = Lock(), Lock()
        self._late_answers = Semaphore(0)

    def ask(self) -> None:
        """Pass the client's requests on until it ends."""
        with suppress(OSError, EOFError):
            while True:
                version, flags, stream, opcode, body = _frame(self._client)
                if version > _VERSION:
                    self._refuse_version(version, stream)
                    continue
                frame = _HEADER.pack(version, flags, stream, opcode, len(body)) + body
                self._pass_on(stream, opcode, body, frame)
        self._close(self._client)
        if not self._proxy.has_late(self):
            self._close(self._server)

    def _pass_on(self, stream: int, opcode: int, body: bytes, frame: bytes) -> None:
        statements = self._statements(opcode, body)
        if opcode == _PREPARE:
            self._preparing[stream] = statements.pop()
        writes = [kind for cql in statements if (kind := _write(cql))]
        fault = self._proxy.fault_of(writes) if writes else None
        if fault is Fault.KILLED_BEFORE:
            self._proxy.kill()
        if fault in (Fault.CUT_BEFORE, Fault.KILLED_BEFORE):
            raise EOFError
        if fault in (Fault.UNAVAILABLE, Fault.OVERLOADED, Fault.REFUSED):
            self._answer(stream, _ERROR, _ERRORS[fault])
            return
        if fault in (Fault.TIMED_OUT, Fault.CUT_AFTER, Fault.KILLED_AFTER):
            self._answered[stream] = fault, any(kind.is_conditional for kind in writes)
        if fault is Fault.LATE:
            late = _HEADER.pack(_VERSION, 0, _LATE_STREAM, opcode, len(body)) + body
            self._proxy.keep(self, late)
        if fault is Fault.TWICE:
            frame += _HEADER.pack(_VERSION, 0, _TWICE_STREAM, opcode, len(body)) + body
        if wait := self._proxy.wait_of(writes):
            Thread(target=self._send_after, args=(wait, frame), daemon=True).start()
        else:
            self._send(frame)

    def _send_after(self, wait: Callable[[], None], frame: bytes) -> None:
        wait()
        with suppress(OSError):
            self._send(frame)

    def _send(self, frame: bytes) -> None:
        with self._asking:
            self._server.sendall(frame)

    def _statements(self, opcode: int, body: bytes) -> list[str]:
        if opcode in (_QUERY, _PREPARE):
            return [_long_string(body)[0]]
        if opcode == _EXECUTE:
            return [self._proxy.cql_of(_short_bytes(body)[0])]
        return list(self._of_batch(body)) if opcode == _BATCH else []

    def _of_batch(self, body: bytes) -> Iterator[str]:
        [number] = struct.unpack_from(">h", body, 1)
        left = body[3:]
        for _ in range(number):
            is_prepared, left = left[0], left[1:]
            if is_prepared:
                statement_id, left = _short_bytes(left)
                yield self._proxy.cql_of(statement_id)
            else:
                cql, left = _long_string(left)
                yield cql
            [values] = struct.unpack_from(">h", left)
            left = left[2:]
            for _ in range(values):
                [size] = struct.unpack_from(">i", left)
                left = left[4 + max(0, size) :]

    def answer(self) -> None:
        """Pass Cassandra's answers on until it ends."""
        with suppress(OSError, EOFError):
            while True:
                _, flags, stream, opcode, body = _frame(self._server)
                if stream == _LATE_STREAM:
                    self._late_answers.release()
                if stream in (_TWICE_STREAM, _LATE_STREAM):
                    continue
                self._learn(stream, opcode, body)
                fault, is_conditional = self._answered.pop(stream, (None, False))
                if fault is Fault.KILLED_AFTER:
                    self._proxy.kill()
                if fault in (Fault.CUT_AFTER, Fault.KILLED_AFTER):
                    self._close(self._client)
                    continue
                if fault is Fault.TIMED_OUT:
                    kind = _TYPES[is_conditional]
                    opcode, flags = _ERROR, 0
                    body = _ERRORS[fault] + struct.pack(">h", len(kind)) + kind
                with suppress(OSError):
                    self._answer(stream, opcode, body, flags)
        self._close(self._client)

    def _learn(self, stream: int, opcode: int, body: bytes) -> None:
        cql = self._preparing.pop(stream, None)
        if cql is not None and opcode == _RESULT and struct.unpack_from(">i", body)[0] == _PREPARED:
            self._proxy.prepared(_short_bytes(body[4:])[0], cql)

    def _answer(self, stream: int, opcode: int, body: bytes, flags: int = 0) -> None:
        if opcode == _SUPPORTED:
            body = _without_compression(body)
        with self._sending:
            header = _HEADER.pack(0x80 | _VERSION, flags, stream, opcode, len(body))
            self._client.sendall(header + body)

    def _refuse_version(self, version: int, stream: int) -> None:
        text = f"Invalid or unsupported protocol version ({version}); supported is (4/v4)".encode()
        body = struct.pack(">ih", _PROTOCOL_ERROR, len(text)) + text
        self._answer(stream, _ERROR, body)

    def ask_again(self, frame: bytes) -> bool:
        """Send a frame once more; return whether it was answered."""
        self._send(frame)
        return self._late_answers.acquire(timeout=_PATIENCE_S)

    @staticmethod
    def _close(one: socket.socket) -> None:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


def _frame(source: socket.socket) -> tuple[int, int, int, int, bytes]:
    """Read a frame: version, flags, stream, opcode, body."""
    version, flags, stream, opcode, size = _HEADER.unpack(_exactly(source, _HEADER.size))
    return version & 0x7F, flags, stream, opcode, _exactly(source, size)


def _exactly(source: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = source.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def _short_bytes(body: bytes) -> tuple[bytes, bytes]:
    [size] = struct.unpack_from(">H", body)
    return body[2 : 2 + size], body[2 + size :]


def _long_string(body: bytes) -> tuple[str, bytes]:
    [size] = struct.unpack_from(">i", body)
    return body[4 : 4 + size].decode(), body[4 + size :]


def _write(cql: str) -> Kind | None:
    """Return what a statement writes; None if it only reads, or changes a schema."""
    found = _WRITE.match(cql)
    if found is None:
        return None
    verb = found["verb"].split()[0].upper()
    return Kind(verb, found["table"], bool(_CONDITION.search(cql)))


def _without_compression(body: bytes) -> bytes:
    """Return the options of a server (a multimap of strings) with no compression among them."""
    [number] = struct.unpack_from(">H", body)
    left, parts = body[2:], [struct.pack(">H", number)]
    for _ in range(number):
        name, left = _short_bytes(left)
        [values] = struct.unpack_from(">H", left)
        left, kept = left[2:], []
        for _ in range(values):
            value, left = _short_bytes(left)
            kept.append(struct.pack(">H", len(value)) + value)
        if name == b"COMPRESSION":
            kept = []
        parts += [struct.pack(">H", len(name)), name, struct.pack(">H", len(kept)), *kept]
    return b"".join(parts)
