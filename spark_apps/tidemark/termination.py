"""The end of a run by SIGTERM or SIGINT, or because its spark-submit has ended.

A signal raises `Ended`, which unwinds the stack and releases the locks. Errors after the signal are
its consequences: Spark's jobs are cancelled, or the JVM has ended. So code that records an error as
a failure of the work calls `check` first.
"""

from __future__ import annotations

import _thread
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_POLL_S = 0.5
_NO_LOG = logging.NullHandler()


class Ended(KeyboardInterrupt):
    """The run was ended; its work has not failed.

    py4j closes its connection only after a KeyboardInterrupt. After another exception, the next
    call to the JVM would read the answer to the interrupted call.
    """


@dataclass
class _State:
    """The state of this process.

    Attributes:
        received: the first signal.
        parent: the process id of spark-submit, if this process is its child.
        deferrals: the number of `deferred` blocks around the main thread's code.
        stop: stops the work outside of the main thread.
    """

    received: signal.Signals | None = None
    parent: int | None = None
    deferrals: int = 0
    stop: Callable[[], None] = lambda: None


_process = _State()


def ended_by() -> signal.Signals | None:
    """Return the signal that has ended the run; SIGTERM if its spark-submit has ended."""
    if _process.parent is not None and os.getppid() != _process.parent:
        return _process.received or signal.SIGTERM
    return _process.received


def check() -> None:
    """Raise Ended if the run was ended."""
    if ended_by() is not None:
        raise Ended


def stop_with(stop: Callable[[], None]) -> None:
    """Let a signal also call `stop`, in a separate thread."""
    _process.stop = stop


@contextmanager
def raised() -> Iterator[None]:
    """Raise `Ended` in the block on the first signal; ignore later signals.

    Airflow kills spark-submit, the parent of this process. Work through Spark then fails at once,
    but work by the Python driver would continue, concurrently with the run that replaces it. A
    change of the parent process id shows the end of spark-submit and counts as SIGTERM.
    """
    handlers = {number: signal.signal(number, _receive) for number in _SIGNALS}
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        _process.parent = os.getppid()
        threading.Thread(target=_watch, args=(_process.parent,), daemon=True).start()
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        logging.getLogger().removeHandler(_NO_LOG)
        _process.received = _process.parent = None


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Restore the signal handlers after the block: pyspark installs its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@contextmanager
def deferred() -> Iterator[None]:
    """Raise `Ended` for a signal in the block only at its end, for blocks that release things."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = _process.received
    _process.deferrals += 1
    try:
        yield
    finally:
        _process.deferrals -= 1
    if previous is None:
        check()


def _receive(number: int, _: FrameType | None) -> None:
    if _process.received is not None:
        return
    _process.received = signal.Signals(number)
    # Without a handler, the root logger would print py4j's traceback of the interrupted call.
    logging.getLogger().addHandler(_NO_LOG)
    # The interrupted code may hold the locks that `threading.Thread` needs.
    _thread.start_new_thread(_stop, ())
    if not _process.deferrals:
        raise Ended


def _stop() -> None:
    # The JVM may have received the signal, too.
    with suppress(Exception):
        _process.stop()


def _watch(parent: int) -> None:
    never = threading.Event()
    while os.getppid() == parent:
        never.wait(_POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)
