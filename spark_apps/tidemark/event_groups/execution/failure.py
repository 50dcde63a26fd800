"""The failure of an event, which is no failure of the run, and the attempts before it."""

from __future__ import annotations

import time
from collections.abc import Iterator

_PAUSES_S = (0.2, 1.0)


class EventFailed(Exception):
    """An event that did not succeed, with the reason in one line."""


def attempts() -> Iterator[int]:
    """Yield the numbers of three attempts, with a pause between two of them."""
    yield 1
    for number, pause in enumerate(_PAUSES_S, 2):
        time.sleep(pause)
        yield number
