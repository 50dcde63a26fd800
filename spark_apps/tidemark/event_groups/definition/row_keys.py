"""Keys of rows in one comparable form, by which colliding groups are recognized."""

from __future__ import annotations

import ipaddress
import json
import re
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Generic, TypeVar

RowKey = tuple[str, tuple[tuple[str, str], ...]]
"""A table and columns of its key with their values, sorted: a row, or all rows of a partition."""
Item = TypeVar("Item")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = re.compile(r"(\d{1,2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?")


@dataclass(frozen=True)
class GroupFootprint(Generic[Item]):
    """A group, its size, and the rows it uses.

    Attributes:
        item: the group.
        events: the number of its events.
        rows: all rows that it writes; None if it collides with every other group.
        reads: further rows, which it only reads.
    """

    item: Item
    events: int
    rows: frozenset[RowKey] | None
    reads: frozenset[RowKey] = frozenset()


def canonical(kind: str, text: str) -> str:
    """Return the comparable form of a key column's value.

    Args:
        kind: the CQL type of the column.
        text: the value as in a statement, JSON or YAML, without quotes.

    Raises:
        ValueError: it is no comparable value of this type; the message says what is.
    """
    if kind not in _FORMS and kind not in _TEXTS:
        raise ValueError(f"a key of type {kind} cannot be compared; leave out `rows` and `reads`")
    form, convert = _FORMS.get(kind, ("", str))
    try:
        return convert(text.strip() if form else text)
    except (ValueError, InvalidOperation, OverflowError, struct.error):
        raise ValueError(f"{text!r} is no {kind}; write {form}") from None


def as_text(value: object) -> str:
    """Return a JSON value as a text for `canonical`."""
    return value if isinstance(value, str) else json.dumps(value)


def _integer(text: str) -> str:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ValueError(text)
    return str(int(text))


def _decimal(text: str) -> str:
    value = Decimal(text)
    if not value.is_finite():
        raise ValueError(text)
    sign, digits, exponent = value.as_tuple()
    significant = "".join(map(str, digits)).rstrip("0")
    if not significant.strip("0"):
        return "0"
    scale = int(exponent) + len(digits) - len(significant)
    return f"{'-' if sign else ''}{significant.lstrip('0')}E{scale}"


def _single(text: str) -> str:
    [value] = struct.unpack("<f", struct.pack("<f", float(text)))
    return repr(value)


def _boolean(text: str) -> str:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower()


def _blob(text: str) -> str:
    if not re.fullmatch(r"0[xX]([0-9a-fA-F]{2})*", text):
        raise ValueError(text)
    return text.lower()


def _timestamp(text: str) -> str:
    if re.fullmatch(r"-?[0-9]+", text):
        return str(int(text))
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        # Cassandra would use the time zone of the node.
        raise ValueError(text)
    return str((moment - _EPOCH) // timedelta(milliseconds=1))


def _date(text: str) -> str:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        # Cassandra reads other digits as a number of days.
        raise ValueError(text)
    return date.fromisoformat(text).isoformat()


def _address(text: str) -> str:
    if "%" in text:
        raise ValueError(text)
    address = ipaddress.ip_address(text)
    # Java treats both as the same address.
    return str(getattr(address, "ipv4_mapped", None) or address)


def _time(text: str) -> str:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    hours, minutes, seconds, fraction = match.groups()
    return f"{int(hours):02}:{minutes}:{seconds}.{fraction or '':0<9}"


_TEXTS = ("text", "ascii", "varchar")
_INTEGER: tuple[str, Callable[[str], str]] = ("a whole number", _integer)
_UUID: tuple[str, Callable[[str], str]] = (
    "it as 6f9a0c4e-8d1b-4c55-9d0c-2f8f6b1f7f60",
    lambda text: str(uuid.UUID(text)),
)
_FORMS: Mapping[str, tuple[str, Callable[[str], str]]] = {
    **dict.fromkeys(("bigint", "int", "smallint", "tinyint", "varint"), _INTEGER),
    **dict.fromkeys(("uuid", "timeuuid"), _UUID),
    "boolean": ("true or false", _boolean),
    "blob": ("it as 0x00ff", _blob),
    "date": ("it as 2024-03-01", _date),
    "decimal": ("a decimal number", _decimal),
    "double": ("a number", lambda text: repr(float(text))),
    "float": ("a number", _single),
    "inet": ("an address such as 10.0.0.1", _address),
    "time": ("it as 12:30:00.5", _time),
    "timestamp": ("its zone too, as in 2024-03-01T12:00:00Z, or milliseconds", _timestamp),
}
