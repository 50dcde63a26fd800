"""Durations as Scala reads and writes them: `1 day`, `90 seconds`, `30 h`.

Source: scala.concurrent.duration.Duration 2.13, by which kafka-journal reads `expireAfter`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_NANOS = {
    "day": 86_400_000_000_000,
    "hour": 3_600_000_000_000,
    "minute": 60_000_000_000,
    "second": 1_000_000_000,
    "millisecond": 1_000_000,
    "microsecond": 1_000,
    "nanosecond": 1,
}
_SHORT = {
    "d": "day",
    "h": "hour",
    "m": "minute",
    "s": "second",
    "ms": "millisecond",
    "µs": "microsecond",
    "ns": "nanosecond",
}
_WORDS = {
    **{name: name for name in _NANOS},
    "hr": "hour",
    "min": "minute",
    "sec": "second",
    "milli": "millisecond",
    "micro": "microsecond",
    "nano": "nanosecond",
}
_UNITS = {**_SHORT, **_WORDS, **{f"{word}s": unit for word, unit in _WORDS.items()}}
_PARTS = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([^\W\d_]+)")
_EXACT = 2**53
_MAX_NANOS = 2**63 - 1
_MOST_CHARACTERS = 1_000
"""The limit, since matching digits without a unit takes quadratic time."""


@dataclass(frozen=True)
class Duration:
    """A length in a unit; Scala keeps both."""

    length: int
    unit: str

    @property
    def milliseconds(self) -> int:
        """Return the whole milliseconds."""
        return self.nanoseconds // _NANOS["millisecond"]

    @property
    def nanoseconds(self) -> int:
        """Return the nanoseconds."""
        return self.length * _NANOS[self.unit]

    def __str__(self) -> str:
        """Return the text that Scala writes."""
        return f"{self.length} {self.unit}{'' if self.length == 1 else 's'}"


def parse(text: str) -> Duration:
    """Parse a text; the unit of the result is the coarsest in which the length is whole.

    Raises:
        ValueError: it is no finite duration.
    """
    compact = "".join(text.split())
    if len(compact) > _MOST_CHARACTERS:
        raise ValueError(f"{text[:40]!r} is no duration")
    parts = _PARTS.fullmatch(compact)
    unit = _UNITS.get(parts[2]) if parts else None
    if parts is None or unit is None:
        raise ValueError(f"{text!r} is no duration")
    if abs(float(parts[1])) > _EXACT:
        return _checked(Duration(int(parts[1]), unit), text)
    nanos = _rounded(float(parts[1]) * _NANOS[unit])
    coarsest = next(name for name, size in _NANOS.items() if nanos % size == 0)
    return _checked(Duration(nanos // _NANOS[coarsest], coarsest), text)


def of_milliseconds(number: int) -> Duration:
    """Return the duration of a number of milliseconds."""
    return _checked(Duration(number, "millisecond"), str(number))


def _rounded(number: float) -> int:
    """Round half up, as Java does: `number + 0.5` would itself be rounded."""
    floor = math.floor(number)
    return floor + 1 if number - floor >= 0.5 else floor


def _checked(duration: Duration, text: str) -> Duration:
    if abs(duration.nanoseconds) > _MAX_NANOS:
        raise ValueError(f"{text!r} is longer than 292 years")
    return duration
