"""Reads and checks single fields of JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from tidemark.journals.kafka.wire.json_text import Json, shown

MAX_SEQ_NR = 2**63 - 1


class Malformed(ValueError):
    """A record that kafka-journal's replicator cannot read either: it stops there."""


def integer(fields: Mapping[str, Json], name: str, where: str) -> int:
    """Return a seq nr from 1 to MAX_SEQ_NR.

    Raises:
        Malformed: the field is missing, or something else.
    """
    value = fields.get(name)
    if isinstance(value, Decimal) and value == value.to_integral_value():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_SEQ_NR:
        raise Malformed(f"{where}.{name} is {shown(value)} and no seq nr")
    return value


def optional_text(fields: Mapping[str, Json], name: str, where: str) -> str | None:
    """Return a text, or None if it is missing or null.

    Raises:
        Malformed: the field is something else.
    """
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise Malformed(f"{where}.{name} is {shown(value)} and no text")
    return value


def utf8(value: bytes, where: str) -> str:
    """Return the text of bytes.

    Raises:
        Malformed: they are not UTF-8.
    """
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"{where} is not UTF-8") from error
