"""The header `on-error`: what becomes of an event that cannot be read or processed.

The four policies are those of Pekko's and Akka's projections (docs/real-systems.md, "Recovery
strategies"), with one rule of our own: an event that is skipped counts as consumed, always.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tidemark.headed_files.sql_file import Value, error_in

Answer = TypeVar("Answer")

FORM = "write skip, fail, `retry-and-skip 3 200ms` or `retry-and-fail 3 200ms`"
_POLICY = re.compile(r"(skip|fail)|retry-and-(skip|fail)\s+([1-9]\d{0,3})\s+(\d{1,6})(ms|s|min)")
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0}


@dataclass(frozen=True)
class OnError:
    """One policy.

    Attributes:
        fails: whether the projection stops in the end; otherwise the event is left out.
        retries: how often the user's Python is called again for an event before that.
        delay_s: how long to wait before each time, in seconds.
    """

    fails: bool = False
    retries: int = 0
    delay_s: float = 0.0

    def attempt(self, call: Callable[[], Answer]) -> Answer:
        """Call once, and again as often as the policy says.

        Raises:
            Exception: what the last call raised.
        """
        for _ in range(self.retries):
            try:
                return call()
            except Exception:
                time.sleep(self.delay_s)
        return call()


SKIP = OnError()
"""The policy of who states none."""


def parse(file: Path, value: Value, *, runs_python: bool) -> OnError:
    """The policy of a header.

    Args:
        file: the definition.
        value: the header's.
        runs_python: whether there is anything that could end otherwise a second time.

    Raises:
        DefinitionError: naming the line and what would be right.
    """
    text = value.text.strip()
    match = _POLICY.fullmatch(text)
    if match is None:
        raise error_in(file, f"on-error cannot be {text!r}", FORM, value.line)
    at_once, later, retries, delay, unit = match.groups()
    if at_once:
        return OnError(at_once == "fail")
    if not runs_python:
        what = "there is no Python function to try again: neither a decoder nor a fold"
        raise error_in(file, what, f"write {later}", value.line)
    return OnError(later == "fail", int(retries), int(delay) * _SECONDS[unit])
